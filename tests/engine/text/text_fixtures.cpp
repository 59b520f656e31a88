#include "tests/engine/text/text_fixtures.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <zlib.h>

namespace troupe::text {
namespace {

[[noreturn]] void fail(const std::string& message) {
  throw std::runtime_error(message); // Ends the test with this text.
}

const JsonValue& field(const JsonValue& row, const std::string& key) {
  const JsonValue* value = row.find(key);
  if (value == nullptr) fail("a row lacks " + key);
  return *value;
}

} // namespace

std::string vector_path(const std::string& name) {
  return std::string(TROUPE_SOURCE_DIR) + "/tests/vectors/text/" + name;
}

std::optional<std::string> shared_path(const std::string& name) {
  const char* set = std::getenv("TROUPE_SHARED");
  const std::string root =
      set != nullptr ? std::string(set) : std::string(TROUPE_SOURCE_DIR) + "/../shared";
  std::string path = root + "/" + name;
  if (std::filesystem::exists(path)) return path;
  return std::nullopt;
}

std::optional<std::string> full_size_path(const std::string& name) {
#if defined(__SANITIZE_ADDRESS__)
  static_cast<void>(name);
  return std::nullopt;
#else
  return shared_path(name);
#endif
}

std::string nano_folder() {
  const std::string bundled = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";
  if (std::filesystem::exists(bundled + "/tokenizer.json")) return bundled;
  return shared_path("models/nano-v4.1").value_or(bundled);
}

std::string read_fixture(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb"); // Reads plain files too.
  if (file == nullptr) fail("cannot open " + path);
  std::string out;
  std::vector<char> buffer(1 << 16);
  int count = 0;
  while ((count = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0) {
    out.append(buffer.data(), static_cast<std::size_t>(count));
  }
  gzclose(file);
  if (count < 0) fail("cannot read " + path);
  return out;
}

std::vector<JsonValue> read_rows(const std::string& path) {
  const std::string text = read_fixture(path);
  std::vector<JsonValue> rows;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const auto end = std::min(text.find('\n', begin), text.size());
    if (end > begin) {
      Result<JsonValue> row = parse_json(std::string_view(text).substr(begin, end - begin));
      if (!row) fail(path + ": " + row.error().message);
      rows.push_back(std::move(row).value());
    }
    begin = end + 1;
  }
  return rows;
}

std::shared_ptr<const Tokenizer> tokenizer_from(const std::string& path) {
  static std::map<std::string, std::shared_ptr<const Tokenizer>> loaded;
  auto& tokenizer = loaded[path];
  if (!tokenizer) {
    Result<std::shared_ptr<const Tokenizer>> parsed = Tokenizer::parse(read_fixture(path), path);
    if (!parsed) fail(parsed.error().message);
    tokenizer = *parsed;
  }
  return tokenizer;
}

std::string text_of(const JsonValue& row, const std::string& key) {
  const std::string* text = field(row, key).string();
  if (text == nullptr) fail(key + " is no string");
  return *text;
}

std::vector<std::int32_t> ids_of(const JsonValue& row, const std::string& key) {
  const JsonValue::Array* items = field(row, key).array();
  if (items == nullptr) fail(key + " is no array");
  std::vector<std::int32_t> ids;
  for (const JsonValue& item : *items)
    ids.push_back(static_cast<std::int32_t>(item.number()));
  return ids;
}

std::vector<std::string> characters(const std::string& text) {
  std::vector<std::string> out;
  for (const char c : text) {
    if (out.empty() || (static_cast<unsigned char>(c) & 0xC0) != 0x80) out.emplace_back();
    out.back() += c;
  }
  return out;
}

} // namespace troupe::text
