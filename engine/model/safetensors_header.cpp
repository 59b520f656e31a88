// The header of one safetensors file: eight bytes of length, a JSON object, then the data.
//
// Streaming parse: nothing is built that the file does not pay for in bytes, a name that occurs
// twice is seen, and nesting costs no stack. Format: huggingface/safetensors README "Format".

#include "engine/model/safetensors.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>

namespace troupe::engine {

namespace {

constexpr std::int64_t kLengthBytes = 8;
constexpr std::int64_t kHeaderBytesMax = 100'000'000; ///< The limit of the published library.
constexpr std::size_t kRankMax = 8;

struct DTypeRow {
  DType dtype;
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array<DTypeRow, kDTypes> kDTypeTable{{{DType::f32, "F32", 4},
                                                     {DType::bf16, "BF16", 2},
                                                     {DType::f16, "F16", 2},
                                                     {DType::i8, "I8", 1},
                                                     {DType::u8, "U8", 1},
                                                     {DType::i32, "I32", 4},
                                                     {DType::i64, "I64", 8},
                                                     {DType::f8_e4m3, "F8_E4M3", 1},
                                                     {DType::f8_e8m0, "F8_E8M0", 1}}};

/// A header entry as it is read; negative marks what was not seen yet.
struct Entry {
  TensorInfo tensor;
  std::int64_t begin = -1;
  std::int64_t end = -1;
  bool has_dtype = false;
  bool has_shape = false;
};

/// Receives the JSON events of a header and stops at the first thing that is wrong.
class HeaderReader : public nlohmann::json::json_sax_t {
public:
  std::vector<Entry> entries;
  std::string problem; ///< Without the file name; empty while all is well.

  bool null() override { return scalar("null"); }
  bool boolean(bool) override { return scalar("a boolean"); }
  bool number_float(double, const std::string& text) override { return scalar("number " + text); }
  bool binary(binary_t&) override { return scalar("binary"); }

  bool number_integer(std::int64_t value) override {
    return scalar("number " + std::to_string(value));
  }

  bool number_unsigned(std::uint64_t value) override {
    if (skip_depth_ > 0 || field_ == Field::other) return scalar("");
    if (place_ != Place::list || value > INT64_MAX) {
      return scalar("number " + std::to_string(value));
    }
    return list_item(static_cast<std::int64_t>(value));
  }

  bool string(std::string& value) override {
    if (place_ != Place::tensor || field_ != Field::dtype) {
      return scalar("text " + in_quotes(value));
    }
    const auto dtype = dtype_from_name(value);
    if (!dtype) {
      return fail("dtype is " + in_quotes(value) + ", expected " + dtype_names());
    }
    entry().tensor.dtype = *dtype;
    entry().has_dtype = true;
    field_ = Field::none;
    return true;
  }

  bool start_object(std::size_t) override {
    if (skipping()) return enter_skipped();
    if (place_ == Place::outside) {
      place_ = Place::header;
      return true;
    }
    if (place_ == Place::header) {
      place_ = Place::tensor;
      field_ = Field::none;
      return true;
    }
    return scalar("an object");
  }

  bool end_object() override {
    if (skip_depth_ > 0) return leave_skipped();
    if (place_ != Place::tensor) {
      place_ = Place::outside;
      return true;
    }
    place_ = Place::header;
    return complete();
  }

  bool start_array(std::size_t) override {
    if (skipping()) return enter_skipped();
    if (place_ == Place::tensor && (field_ == Field::shape || field_ == Field::offsets)) {
      place_ = Place::list;
      items_ = 0;
      return true;
    }
    return scalar("an array");
  }

  bool end_array() override {
    if (skip_depth_ > 0) return leave_skipped();
    place_ = Place::tensor;
    if (field_ == Field::offsets && items_ != 2) {
      return fail("data_offsets has " + std::to_string(items_) + " numbers, expected 2");
    }
    entry().has_shape |= field_ == Field::shape;
    field_ = Field::none;
    return true;
  }

  bool key(std::string& name) override {
    if (skip_depth_ > 0) return true;
    if (place_ == Place::header) {
      in_metadata_ = name == "__metadata__";
      if (!in_metadata_) {
        entries.emplace_back();
        entry().tensor.name = name;
      }
      return true;
    }
    return tensor_key(name);
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    no_json_at(position);
    return false;
  }

  /// @param position  of the header's text, from 1
  void no_json_at(std::size_t position) {
    problem = "header is no valid JSON at byte " + std::to_string(kLengthBytes + position) +
              ", expected one object";
  }

private:
  enum class Place : std::uint8_t { outside, header, tensor, list };
  enum class Field : std::uint8_t { none, dtype, shape, offsets, other };

  static std::string dtype_names() {
    std::string text;
    for (const auto& row : kDTypeTable) {
      text += (text.empty() ? "" : " ") + std::string(row.name);
    }
    return "one of " + text;
  }

  Entry& entry() { return entries.back(); }
  bool skipping() const {
    return skip_depth_ > 0 || (place_ == Place::header && in_metadata_) ||
           (place_ == Place::tensor && field_ == Field::other);
  }
  bool enter_skipped() {
    ++skip_depth_;
    return true;
  }
  bool leave_skipped() {
    --skip_depth_;
    if (skip_depth_ == 0) field_ = Field::none;
    return true;
  }

  bool fail(const std::string& what) {
    problem = entries.empty() ? "header: " + what
                              : "tensor " + in_quotes(entry().tensor.name) + ": " + what;
    return false;
  }

  /// A value where only a skipped place may have it.
  bool scalar(const std::string& what) {
    if (skipping()) {
      if (skip_depth_ == 0) field_ = Field::none;
      return true;
    }
    switch (place_) {
    case Place::outside:
      return fail("is " + what + ", expected a JSON object of tensors");
    case Place::header:
      return fail("is " + what + ", expected an object");
    case Place::list:
      return fail(std::string(field_ == Field::shape ? "shape" : "data_offsets") + " contains " +
                  what + ", expected integers from 0 to 2^63 - 1");
    case Place::tensor:
      break;
    }
    const char* name = field_ == Field::dtype   ? "dtype"
                       : field_ == Field::shape ? "shape"
                                                : "data_offsets";
    return fail(std::string(name) + " is " + what + ", expected " +
                (field_ == Field::dtype ? "text" : "a list of integers"));
  }

  bool tensor_key(const std::string& name) {
    Entry& now = entry();
    bool twice = false;
    if (name == "dtype") {
      field_ = Field::dtype;
      twice = now.has_dtype;
    } else if (name == "shape") {
      field_ = Field::shape;
      twice = now.has_shape;
    } else if (name == "data_offsets") {
      field_ = Field::offsets;
      twice = now.begin >= 0;
    } else {
      field_ = Field::other;
    }
    return twice ? fail("key " + in_quotes(name) + " occurs twice, expected once") : true;
  }

  bool list_item(std::int64_t value) {
    ++items_;
    if (field_ == Field::shape) {
      if (items_ > kRankMax) {
        return fail("shape has more than " + std::to_string(kRankMax) +
                    " dimensions, expected at most that");
      }
      entry().tensor.shape.push_back(value);
    } else if (items_ == 1) {
      entry().begin = value;
    } else if (items_ == 2) {
      entry().end = value;
    }
    return true;
  }

  bool complete() {
    const Entry& now = entry();
    if (!now.has_dtype) return fail("has no dtype, expected one");
    if (!now.has_shape) return fail("has no shape, expected one");
    if (now.begin < 0) return fail("has no data_offsets, expected two numbers");
    return true;
  }

  Place place_ = Place::outside;
  Field field_ = Field::none;
  bool in_metadata_ = false;
  int skip_depth_ = 0;
  std::size_t items_ = 0;
};

/// Bytes a shape needs, or nothing when they exceed 63 bits.
std::optional<std::int64_t> needed_bytes(const TensorInfo& tensor) {
  std::int64_t bytes = dtype_bytes(tensor.dtype);
  for (const std::int64_t n : tensor.shape) {
    if (__builtin_mul_overflow(bytes, n, &bytes)) return std::nullopt;
  }
  return bytes;
}

std::string range_text(const Entry& entry) {
  return "bytes " + std::to_string(entry.begin) + " to " + std::to_string(entry.end);
}

/// Offsets inside the data and of the size that shape and dtype ask for.
std::string check_extent(const Entry& entry, std::int64_t data_bytes) {
  const TensorInfo& tensor = entry.tensor;
  const std::string who = "tensor " + in_quotes(tensor.name) + ": ";
  if (entry.begin > entry.end || entry.end > data_bytes) {
    return who + "data_offsets are " + range_text(entry) + ", but the file holds " +
           std::to_string(data_bytes) + " bytes of data, expected offsets inside it";
  }
  const auto needed = needed_bytes(tensor);
  if (!needed)
    return who + "shape " + shape_text(tensor.shape) +
           " overflows 63 bits, expected bytes that fit";
  if (*needed != entry.end - entry.begin) {
    return who + std::string(dtype_name(tensor.dtype)) + " " + shape_text(tensor.shape) +
           " needs " + std::to_string(*needed) + " bytes, but data_offsets span " +
           std::to_string(entry.end - entry.begin);
  }
  return {};
}

/// Tensors must cover the data without gap or overlap, as the format demands.
std::string check_cover(std::vector<const Entry*> order, std::int64_t data_bytes) {
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
  });
  std::int64_t covered = 0;
  const Entry* before = nullptr;
  for (const Entry* entry : order) {
    if (entry->begin < covered) {
      return "tensor " + in_quotes(entry->tensor.name) + ": " + range_text(*entry) +
             " overlap tensor " + in_quotes(before->tensor.name) + " (" + range_text(*before) +
             "), expected no overlap";
    }
    if (entry->begin > covered) break;
    covered = entry->end;
    before = entry;
  }
  if (covered != data_bytes) {
    return "data bytes from " + std::to_string(covered) + " of " + std::to_string(data_bytes) +
           " belong to no tensor; expected no gap and nothing after the last tensor";
  }
  return {};
}

std::string check_entries(std::vector<Entry>& entries, std::int64_t data_bytes) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.tensor.name < b.tensor.name; });
  std::vector<const Entry*> order;
  order.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i > 0 && entries[i].tensor.name == entries[i - 1].tensor.name) {
      return "tensor " + in_quotes(entries[i].tensor.name) +
             ": occurs twice in the header, expected once";
    }
    if (std::string problem = check_extent(entries[i], data_bytes); !problem.empty()) {
      return problem;
    }
    order.push_back(&entries[i]);
  }
  return check_cover(std::move(order), data_bytes);
}

Result<std::string> header_text(const InputFile& file) {
  const auto damaged = [&](const std::string& what) {
    return Error{ErrorCode::bad_checkpoint, file.path() + ": " + what};
  };
  if (file.size_bytes() == 0 && file.holds_more_than_told()) {
    return damaged("is told to have 0 bytes but holds some, as files under /proc do, expected a "
                   "safetensors file of a known size; copy it to a disk and name the copy");
  }
  if (file.size_bytes() < kLengthBytes) {
    return damaged("has " + std::to_string(file.size_bytes()) +
                   " bytes, expected a safetensors file of at least 8; fetch it again");
  }
  std::array<std::byte, kLengthBytes> raw_length{};
  if (Status status = file.read_at(0, raw_length); !status) return status.error();
  std::uint64_t length = 0;
  for (std::size_t i = raw_length.size(); i-- > 0;) {
    length = length << 8 | static_cast<std::uint64_t>(raw_length[i]);
  }
  if (length > static_cast<std::uint64_t>(file.size_bytes() - kLengthBytes)) {
    return damaged(
        "header length is " + std::to_string(length) + ", but only " +
        std::to_string(file.size_bytes() - kLengthBytes) +
        " bytes follow, expected at most that; this is no safetensors file, or it is cut (a "
        "Git LFS pointer looks like this), fetch it again");
  }
  if (length > static_cast<std::uint64_t>(kHeaderBytesMax)) {
    return damaged("header length is " + std::to_string(length) + ", expected at most " +
                   std::to_string(kHeaderBytesMax) + "; the file is damaged, fetch it again");
  }
  std::string text(length, '\0');
  if (Status status = file.read_at(kLengthBytes, std::as_writable_bytes(std::span(text)));
      !status) {
    return status.error();
  }
  return text;
}

} // namespace

std::string_view dtype_name(DType dtype) noexcept {
  return kDTypeTable[static_cast<std::size_t>(dtype)].name;
}

std::int64_t dtype_bytes(DType dtype) noexcept {
  return kDTypeTable[static_cast<std::size_t>(dtype)].bytes;
}

std::optional<DType> dtype_from_name(std::string_view name) noexcept {
  for (const auto& row : kDTypeTable) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

Result<SafetensorsHeader> read_safetensors_header(const InputFile& file) {
  auto text = header_text(file);
  if (!text) return text.error();
  HeaderReader reader;
  const auto header_bytes = static_cast<std::int64_t>(text->size());
  // The JSON reader takes a zero byte for the end of its input.
  const std::size_t zero = text->find('\0');
  if (zero != std::string::npos) reader.no_json_at(zero + 1);
  const bool parsed = zero == std::string::npos && nlohmann::json::sax_parse(*text, &reader);
  if (!parsed && reader.problem.empty()) reader.problem = "header is no valid JSON";
  const std::int64_t data_start = kLengthBytes + header_bytes;
  if (parsed) reader.problem = check_entries(reader.entries, file.size_bytes() - data_start);
  if (!reader.problem.empty()) {
    return Error{ErrorCode::bad_checkpoint, file.path() + ": " + reader.problem +
                                                "; the file is cut or damaged, fetch it again"};
  }
  SafetensorsHeader header;
  header.file = {file.path(), header_bytes, file.size_bytes()};
  header.tensors.reserve(reader.entries.size());
  for (Entry& entry : reader.entries) {
    entry.tensor.offset_bytes = data_start + entry.begin;
    entry.tensor.size_bytes = entry.end - entry.begin;
    header.tensors.push_back(std::move(entry.tensor));
  }
  return header;
}

} // namespace troupe::engine
