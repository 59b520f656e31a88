#include "engine/text/tokenizer_file.hpp"

#include "engine/text/json_value.hpp"
#include "schedulers/core/printable.hpp"

#include <unordered_map>

namespace troupe::text {
namespace {

constexpr const char* kRepair = "; the file is damaged or of another model, fetch it again";

// Published tokenizers leave gaps for later tokens, not for many times what they hold.
constexpr std::size_t kIdsPerToken = 8;
constexpr std::size_t kIdsSpare = 4096;

/// Turns the printable spelling of bytes back into bytes.
class ByteSpelling {
public:
  ByteSpelling() {
    std::uint32_t next = 256;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) ||
                             (byte >= 174 && byte <= 255);
      byte_of_.at(printable ? byte : next++) = static_cast<std::int16_t>(byte);
    }
  }

  /// Bytes of a spelling, or nothing when a character of it stands for none.
  std::optional<std::string> bytes(std::string_view spelled) const {
    std::string out;
    for (std::size_t i = 0; i < spelled.size(); ++i) {
      std::uint32_t code = static_cast<unsigned char>(spelled[i]);
      if (code >= 0x80) { // The table's characters have two bytes at most.
        if ((code & 0xE0) != 0xC0 || i + 1 == spelled.size()) return std::nullopt;
        code = (code & 0x1F) << 6 | (static_cast<unsigned char>(spelled[++i]) & 0x3F);
      }
      if (code >= byte_of_.size() || byte_of_[code] < 0) return std::nullopt;
      out += static_cast<char>(byte_of_[code]);
    }
    return out;
  }

private:
  std::array<std::int16_t, 324> byte_of_ = [] {
    std::array<std::int16_t, 324> none{};
    none.fill(-1);
    return none;
  }();
};

/// Reads one file; every method returns the first thing that is wrong.
class Reader {
public:
  Reader(const JsonValue& root, const std::string& name) : root_(root), name_(name) {}

  Result<TokenizerFile> read() {
    if (root_.object() == nullptr) return wrong("", root_, "an object");
    for (auto step : {&Reader::read_normalizer, &Reader::read_model, &Reader::read_vocab,
                      &Reader::read_merges, &Reader::read_pre_tokenizer, &Reader::read_decoder,
                      &Reader::read_added, &Reader::check_gaps}) {
      if (Status status = (this->*step)(); !status) return status.error();
    }
    return std::move(file_);
  }

private:
  Error error(ErrorCode code, const std::string& key, const std::string& message) const {
    const char* advice = code == ErrorCode::unsupported
                             ? "; take a model with a byte-level BPE of this kind"
                             : kRepair;
    return {code, name_ + ": " + (key.empty() ? "" : key + ": ") + message + advice};
  }
  Error wrong(const std::string& key, const JsonValue& found, std::string_view expected) const {
    return error(ErrorCode::bad_checkpoint, key,
                 "found " + std::string(found.kind_name()) + ", expected " + std::string(expected));
  }
  Error missing(const std::string& key, std::string_view expected) const {
    return error(ErrorCode::bad_checkpoint, key, "missing, expected " + std::string(expected));
  }
  Error unsupported(const std::string& key, const std::string& found,
                    const std::string& supported) const {
    return error(ErrorCode::unsupported, key, "found " + found + ", supported is " + supported);
  }

  Status read_normalizer() {
    const JsonValue* normalizer = root_.find("normalizer");
    if (normalizer == nullptr || normalizer->is_null()) return {};
    const JsonValue* list = normalizer->find("normalizers");
    if (list != nullptr && list->array() != nullptr && list->array()->empty()) return {};
    return unsupported("normalizer", "a normaliser", "null or an empty Sequence");
  }

  Status read_model() {
    model_ = root_.find("model");
    if (model_ == nullptr) return missing("model", "an object of type BPE");
    if (model_->object() == nullptr) return wrong("model", *model_, "an object");
    const JsonValue* type = model_->find("type");
    if (type != nullptr && !type->is_null()) {
      if (type->string() == nullptr) return wrong("model.type", *type, "\"BPE\"");
      if (*type->string() != "BPE") {
        return unsupported("model.type", quote(*type->string()), "\"BPE\"");
      }
    }
    for (const char* key : {"unk_token", "continuing_subword_prefix", "end_of_word_suffix"}) {
      const JsonValue* value = model_->find(key);
      const bool unset = value == nullptr || value->is_null() ||
                         (value->string() != nullptr && value->string()->empty());
      if (!unset) return unsupported(std::string("model.") + key, "a value", "null");
    }
    const JsonValue* dropout = model_->find("dropout");
    if (dropout != nullptr && dropout->number() != 0.0) {
      return unsupported("model.dropout", "dropout", "null");
    }
    if (Status status = read_flag("byte_fallback", false); !status) return status;
    return read_bool(*model_, "ignore_merges", "model.ignore_merges", file_.ignore_merges);
  }

  /// An optional boolean; `out` keeps its value when there is none.
  Status read_bool(const JsonValue& object, const char* name, const std::string& key,
                   bool& out) const {
    const JsonValue* value = object.find(name);
    if (value == nullptr || value->is_null()) return {};
    if (value->boolean() == nullptr) return wrong(key, *value, "a boolean");
    out = *value->boolean();
    return {};
  }

  Status read_flag(const char* key, bool supported) {
    const std::string full = std::string("model.") + key;
    bool found = supported;
    if (Status status = read_bool(*model_, key, full, found); !status) return status;
    if (found == supported) return {};
    return unsupported(full, supported ? "false" : "true", supported ? "true" : "false");
  }

  Result<std::int32_t> id_from(const JsonValue* value, const std::string& key) const {
    if (value == nullptr) return missing(key, "a token id");
    const std::uint64_t* id = value->natural();
    if (id == nullptr || *id >= static_cast<std::uint64_t>(kTokenIdsMax)) {
      return error(
          ErrorCode::bad_checkpoint, key,
          "found " + (value->is_number() ? python_json(*value) : std::string(value->kind_name())) +
              ", expected a token id below " + std::to_string(kTokenIdsMax));
    }
    return static_cast<std::int32_t>(*id);
  }

  Status read_vocab() {
    const JsonValue* vocab = model_->find("vocab");
    if (vocab == nullptr) return missing("model.vocab", "an object of token: id");
    if (vocab->object() == nullptr) return wrong("model.vocab", *vocab, "an object of token: id");
    std::vector<bool> used;
    std::array<bool, 256> single{};
    for (const JsonMember& entry : *vocab->object()) {
      const std::string key = "model.vocab[" + quote(entry.key) + "]";
      Result<std::int32_t> id = id_from(&entry.value, key);
      if (!id) return id.error();
      const auto index = static_cast<std::size_t>(*id);
      if (index >= used.size()) used.resize(index + 1);
      if (used[index]) {
        return error(ErrorCode::bad_checkpoint, key,
                     "id " + std::to_string(*id) + " is used twice, expected once");
      }
      used[index] = true;
      // Names of special tokens may stand here too, spelled as they are.
      std::string bytes = spelling_.bytes(entry.key).value_or(entry.key);
      if (bytes.size() == 1) single.at(static_cast<unsigned char>(bytes[0])) = true;
      file_.vocab.emplace_back(std::move(bytes), *id);
    }
    for (std::size_t byte = 0; byte < single.size(); ++byte) {
      if (!single.at(byte)) {
        return error(ErrorCode::bad_checkpoint, "model.vocab",
                     "byte " + std::to_string(byte) +
                         " has no token, a byte-level vocabulary needs all 256");
      }
    }
    return {};
  }

  Status read_merges() {
    const JsonValue* merges = model_->find("merges");
    if (merges == nullptr) return missing("model.merges", "an array of token pairs");
    if (merges->array() == nullptr) return wrong("model.merges", *merges, "an array");
    file_.merges.reserve(merges->array()->size());
    std::size_t index = 0;
    for (const JsonValue& merge : *merges->array()) {
      const std::string key = "model.merges[" + std::to_string(index++) + "]";
      std::string_view left;
      std::string_view right;
      const JsonValue::Array* pair = merge.array();
      if (const std::string* text = merge.string()) {
        const auto space = text->find(' ');
        if (space == std::string::npos || text->find(' ', space + 1) != std::string::npos) {
          return error(ErrorCode::bad_checkpoint, key,
                       "found " + quote(*text) + ", expected two tokens with a space between");
        }
        left = std::string_view(*text).substr(0, space);
        right = std::string_view(*text).substr(space + 1);
      } else if (pair != nullptr && pair->size() == 2 && (*pair)[0].string() != nullptr &&
                 (*pair)[1].string() != nullptr) {
        left = *(*pair)[0].string();
        right = *(*pair)[1].string();
      } else {
        return wrong(key, merge, "\"left right\" or [\"left\", \"right\"]");
      }
      auto left_bytes = spelling_.bytes(left);
      auto right_bytes = spelling_.bytes(right);
      if (!left_bytes || !right_bytes || left_bytes->empty() || right_bytes->empty()) {
        return error(ErrorCode::bad_checkpoint, key,
                     "found something else, expected two tokens spelled byte by byte");
      }
      file_.merges.emplace_back(std::move(*left_bytes), std::move(*right_bytes));
    }
    return {};
  }

  Status read_pre_tokenizer() {
    const JsonValue* root = root_.find("pre_tokenizer");
    if (root == nullptr || root->is_null()) {
      return missing("pre_tokenizer", "a Sequence of Split and ByteLevel");
    }
    if (root->object() == nullptr) return wrong("pre_tokenizer", *root, "an object");
    const JsonValue* list = root->find("pretokenizers");
    if (list == nullptr) return read_one_pre_tokenizer(*root, "pre_tokenizer", true);
    const std::string key = "pre_tokenizer.pretokenizers";
    if (list->array() == nullptr) return wrong(key, *list, "an array");
    const std::size_t count = list->array()->size();
    if (count == 0) return missing(key + "[0]", "ByteLevel at the end");
    for (std::size_t i = 0; i < count; ++i) {
      Status status = read_one_pre_tokenizer((*list->array())[i],
                                             key + "[" + std::to_string(i) + "]", i + 1 == count);
      if (!status) return status;
    }
    return {};
  }

  Status read_one_pre_tokenizer(const JsonValue& value, const std::string& key, bool last) {
    const JsonValue* type = value.find("type");
    if (type == nullptr || type->string() == nullptr) {
      return missing(key + ".type", "\"Split\" or \"ByteLevel\"");
    }
    if (last) {
      if (*type->string() != "ByteLevel") {
        return unsupported(key + ".type", quote(*type->string()), "\"ByteLevel\" at the end");
      }
      for (const char* flag : {"add_prefix_space", "use_regex"}) {
        const JsonValue* set = value.find(flag);
        const bool on = set == nullptr || set->boolean() == nullptr || *set->boolean();
        if (on) return unsupported(key + "." + flag, "true or nothing", "false");
      }
      return {};
    }
    if (*type->string() != "Split") {
      return unsupported(key + ".type", quote(*type->string()), "\"Split\" before the end");
    }
    const JsonValue* behavior = value.find("behavior");
    if (behavior == nullptr || behavior->string() == nullptr || *behavior->string() != "Isolated") {
      return unsupported(key + ".behavior", "another value", "\"Isolated\"");
    }
    bool invert = false;
    if (Status status = read_bool(value, "invert", key + ".invert", invert); !status) return status;
    if (invert) return unsupported(key + ".invert", "true", "false");
    const JsonValue* pattern = value.find("pattern");
    const JsonValue* regex = pattern == nullptr ? nullptr : pattern->find("Regex");
    if (regex == nullptr || regex->string() == nullptr || regex->string()->empty()) {
      return missing(key + ".pattern.Regex", "a regular expression");
    }
    file_.splits.push_back(*regex->string());
    return {};
  }

  Status read_decoder() {
    const JsonValue* decoder = root_.find("decoder");
    const JsonValue* type = decoder == nullptr ? nullptr : decoder->find("type");
    if (type != nullptr && type->string() != nullptr && *type->string() == "ByteLevel") return {};
    return unsupported("decoder.type", "another value or nothing", "\"ByteLevel\"");
  }

  Status read_added() {
    const JsonValue* added = root_.find("added_tokens");
    if (added == nullptr || added->is_null()) return {};
    if (added->array() == nullptr) return wrong("added_tokens", *added, "an array");
    std::unordered_map<std::string_view, std::size_t> seen;
    std::unordered_map<std::int32_t, std::size_t> seen_ids;
    for (std::size_t i = 0; i < added->array()->size(); ++i) {
      const JsonValue& entry = (*added->array())[i];
      const std::string key = "added_tokens[" + std::to_string(i) + "]";
      if (entry.object() == nullptr) return wrong(key, entry, "an object");
      Result<std::int32_t> id = id_from(entry.find("id"), key + ".id");
      if (!id) return id.error();
      const JsonValue* content = entry.find("content");
      if (content == nullptr || content->string() == nullptr || content->string()->empty()) {
        return missing(key + ".content", "the token's text");
      }
      for (const char* flag : {"single_word", "lstrip", "rstrip"}) {
        bool set = false;
        const std::string full = key + "." + flag;
        if (Status status = read_bool(entry, flag, full, set); !status) return status;
        if (set) return unsupported(full, "true", "false");
      }
      if (!seen.emplace(*content->string(), i).second || !seen_ids.emplace(*id, i).second) {
        return error(ErrorCode::bad_checkpoint, key,
                     "id " + std::to_string(*id) + " or text " + quote(*content->string()) +
                         " is there twice, expected once");
      }
      bool special = false;
      Status status = read_bool(entry, "special", key + ".special", special);
      if (!status) return status;
      file_.added.push_back({*id, *content->string(), special});
    }
    return {};
  }

  /// A table is as long as its highest id: one far id must not cost the memory of all below it.
  Status check_gaps() {
    const std::size_t tokens = file_.vocab.size() + file_.added.size();
    const std::size_t ids_max = kIdsPerToken * tokens + kIdsSpare;
    const auto check = [&](std::int32_t id, const char* key) -> Status {
      if (static_cast<std::size_t>(id) < ids_max) return {};
      return error(ErrorCode::bad_checkpoint, key,
                   "found id " + std::to_string(id) + " among " + std::to_string(tokens) +
                       " tokens, expected ids below " + std::to_string(ids_max));
    };
    for (const auto& [content, id] : file_.vocab) {
      if (Status status = check(id, "model.vocab"); !status) return status;
    }
    for (const AddedToken& token : file_.added) {
      if (Status status = check(token.id, "added_tokens"); !status) return status;
    }
    return {};
  }

  const JsonValue& root_;
  const std::string& name_;
  const JsonValue* model_ = nullptr;
  ByteSpelling spelling_;
  TokenizerFile file_;
};

} // namespace

Result<TokenizerFile> parse_tokenizer_file(std::string_view json, const std::string& name) {
  std::string repeated;
  Result<JsonValue> root = parse_json(json, repeated);
  if (!root) {
    return {ErrorCode::bad_checkpoint,
            name + ": is no valid JSON, expected one object: " + root.error().message + kRepair};
  }
  if (!repeated.empty()) {
    return {ErrorCode::bad_checkpoint, name + ": " + printable(repeated) +
                                           ": stands twice in one object, expected once" + kRepair};
  }
  return Reader(*root, name).read();
}

} // namespace troupe::text
