#include "engine/text/tokenizer.hpp"

#include "engine/text/added_tokens.hpp"
#include "engine/text/bpe.hpp"
#include "engine/text/pre_tokenizer.hpp"
#include "engine/text/text_file.hpp"
#include "engine/text/tokenizer_file.hpp"
#include "engine/text/utf8.hpp"

#include <algorithm>
#include <unordered_map>

namespace troupe::text {

struct Tokenizer::Parts {
  struct Place {
    std::uint32_t begin = 0;
    std::uint32_t bytes = 0;
    bool added = false;
    bool special = false;
  };

  explicit Parts(PreTokenizer splitter) : pre_tokenizer(std::move(splitter)) {}

  PreTokenizer pre_tokenizer;
  Bpe bpe;
  AddedTokenTrie added;
  bool ignore_merges = false;
  std::string bytes;         ///< All tokens' bytes, one after the other.
  std::vector<Place> places; ///< [ids]
  std::unordered_map<std::string_view, std::int32_t> vocab_ids; ///< Keys point into `bytes`.
  std::unordered_map<std::string_view, std::int32_t> added_ids;

  void place_tokens(const TokenizerFile& file);
  Status build_merges(const TokenizerFile& file, const std::string& name);
  Status encode_text(std::string_view text, std::vector<std::int32_t>& ids) const;
};

namespace {

/// An id means one text: an added token may repeat an entry of the vocabulary, not replace it.
Status check_added(const TokenizerFile& file, const std::string& name) {
  std::unordered_map<std::int32_t, std::string_view> vocab;
  vocab.reserve(file.vocab.size());
  for (const auto& [content, id] : file.vocab)
    vocab.emplace(id, content);
  for (const AddedToken& token : file.added) {
    const auto found = vocab.find(token.id);
    if (found == vocab.end() || found->second == token.content) continue;
    return {ErrorCode::bad_checkpoint,
            name + ": added_tokens: id " + std::to_string(token.id) +
                " is another token of model.vocab, expected an id of its own; the file is damaged "
                "or of another model, fetch it again"};
  }
  return {};
}

} // namespace

void Tokenizer::Parts::place_tokens(const TokenizerFile& file) {
  std::size_t total = 0;
  std::size_t ids = 0;
  const auto count = [&](std::int32_t id, const std::string& content) {
    total += content.size();
    ids = std::max(ids, static_cast<std::size_t>(id) + 1);
  };
  for (const auto& [content, id] : file.vocab)
    count(id, content);
  for (const AddedToken& token : file.added)
    count(token.id, token.content);
  bytes.reserve(total); // Views into it must stay valid.
  places.resize(ids);
  const auto place = [&](std::int32_t id, const std::string& content) {
    Place& at = places[static_cast<std::size_t>(id)];
    at.begin = static_cast<std::uint32_t>(bytes.size());
    at.bytes = static_cast<std::uint32_t>(content.size());
    bytes += content;
    return std::string_view(bytes).substr(at.begin, at.bytes);
  };
  vocab_ids.reserve(file.vocab.size());
  for (const auto& [content, id] : file.vocab)
    vocab_ids.emplace(place(id, content), id);
  added_ids.reserve(file.added.size());
  for (const AddedToken& token : file.added) {
    added_ids.emplace(place(token.id, token.content), token.id);
    added.insert(token.content, token.id);
    places[static_cast<std::size_t>(token.id)].added = true;
    places[static_cast<std::size_t>(token.id)].special = token.special;
  }
}

Status Tokenizer::Parts::build_merges(const TokenizerFile& file, const std::string& name) {
  std::array<std::int32_t, 256> byte_ids{};
  for (std::size_t byte = 0; byte < byte_ids.size(); ++byte) {
    const char c = static_cast<char>(byte);
    byte_ids.at(byte) = vocab_ids.at(std::string_view(&c, 1));
  }
  std::vector<Merge> merges;
  merges.reserve(file.merges.size());
  std::string joined;
  for (const auto& [left, right] : file.merges) {
    joined = left + right;
    Merge merge;
    for (const auto& [part, id] : {std::pair<std::string_view, std::int32_t*>{left, &merge.left},
                                   {right, &merge.right},
                                   {joined, &merge.merged}}) {
      const auto found = vocab_ids.find(part);
      if (found == vocab_ids.end()) {
        return {ErrorCode::bad_checkpoint,
                name + ": model.merges[" + std::to_string(merges.size()) +
                    "]: a token of it or their join is missing in model.vocab, expected all three; "
                    "the file is damaged or of another model, fetch it again"};
      }
      *id = found->second;
    }
    merges.push_back(merge);
  }
  bpe = Bpe(byte_ids, merges);
  return {};
}

Status Tokenizer::Parts::encode_text(std::string_view text, std::vector<std::int32_t>& ids) const {
  std::vector<std::string_view> pieces;
  if (Status status = pre_tokenizer.split(text, pieces); !status) return status;
  for (const std::string_view piece : pieces) {
    if (ignore_merges) {
      const auto whole = vocab_ids.find(piece);
      if (whole != vocab_ids.end()) {
        ids.push_back(whole->second);
        continue;
      }
    }
    bpe.encode(piece, ids);
  }
  return {};
}

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::string& path) {
  Result<std::string> json = read_text_file(path);
  if (!json) return json.error();
  return parse(*json, path);
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::parse(std::string_view json,
                                                          const std::string& name) {
  Result<TokenizerFile> file = parse_tokenizer_file(json, name);
  if (!file) return file.error();
  Result<PreTokenizer> splitter = PreTokenizer::compile(file->splits);
  if (!splitter) {
    return {splitter.error().code, name + ": pre_tokenizer: " + splitter.error().message +
                                       ", expected a regular expression that compiles; the file is "
                                       "damaged or of another model, fetch it again"};
  }
  auto parts = std::make_unique<Parts>(std::move(splitter).value());
  if (Status status = check_added(*file, name); !status) return status.error();
  parts->ignore_merges = file->ignore_merges;
  parts->place_tokens(*file);
  if (Status status = parts->build_merges(*file, name); !status) return status.error();
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(parts)));
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text,
                                                    AddedTokens added) const {
  const PromptSegment segment{std::string(text), added == AddedTokens::match};
  return encode(std::span<const PromptSegment>(&segment, 1));
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::span<const PromptSegment> segments) const {
  std::vector<std::int32_t> ids;
  std::string run; // Text since the last added token; segments do not cut it.
  const auto end_run = [&]() -> Status {
    if (const auto bad = invalid_utf8_at(run)) {
      return {ErrorCode::parse_error, "the text is not UTF-8: byte " + std::to_string(*bad) +
                                          " of " + std::to_string(run.size())};
    }
    Status status = parts_->encode_text(run, ids);
    run.clear();
    return status;
  };
  for (const PromptSegment& segment : segments) {
    std::size_t at = 0;
    while (segment.is_special) {
      const auto match = parts_->added.find(segment.text, at);
      if (!match) break;
      run.append(segment.text, at, match->begin - at);
      if (Status status = end_run(); !status) return status.error();
      ids.push_back(match->id);
      at = match->begin + match->bytes;
    }
    run.append(segment.text, at, std::string::npos);
  }
  if (Status status = end_run(); !status) return status.error();
  return ids;
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const noexcept {
  if (id < 0 || static_cast<std::size_t>(id) >= parts_->places.size()) return {};
  const Parts::Place& place = parts_->places[static_cast<std::size_t>(id)];
  return std::string_view(parts_->bytes).substr(place.begin, place.bytes);
}

std::optional<std::int32_t> Tokenizer::id_of(std::string_view text) const {
  for (const auto* ids : {&parts_->added_ids, &parts_->vocab_ids}) {
    const auto found = ids->find(text);
    if (found != ids->end()) return found->second;
  }
  return std::nullopt;
}

bool Tokenizer::is_special(std::int32_t id) const noexcept {
  return id >= 0 && static_cast<std::size_t>(id) < parts_->places.size() &&
         parts_->places[static_cast<std::size_t>(id)].special;
}

bool Tokenizer::is_added(std::int32_t id) const noexcept {
  return id >= 0 && static_cast<std::size_t>(id) < parts_->places.size() &&
         parts_->places[static_cast<std::size_t>(id)].added;
}

std::int64_t Tokenizer::vocab_size() const noexcept {
  return static_cast<std::int64_t>(parts_->places.size());
}

} // namespace troupe::text
