#include "schedulers/kv/unit_chain.hpp"

#include <algorithm>

namespace troupe::sched {

Result<Sha256Digest> chain_root(const ChainRoot& root) {
  struct Field {
    std::string_view name, value;
  };
  const std::array<Field, 4> fields = {{{"model", root.model},
                                        {"kv_format", root.kv_format},
                                        {"revision", root.revision},
                                        {"tenant_salt", root.tenant_salt}}};
  Sha256 hash;
  for (const Field& field : fields) {
    const bool is_first = field.name == "model";
    if (field.value.find('|') != std::string_view::npos) {
      return {ErrorCode::bad_argument,
              std::string(field.name) + " of a store's names: found a '|' in \"" +
                  std::string(field.value) + "\", which parts the fields; leave it out"};
    }
    if (field.value.empty()) continue;
    if (!is_first) hash.add("|");
    hash.add(field.value);
  }
  if (root.model.empty() || root.kv_format.empty()) {
    return {ErrorCode::missing_key,
            "names of a store need a model and a kv_format; found none of one of them"};
  }
  return hash.finish();
}

Sha256Digest next_link(const Sha256Digest& before, std::span<const std::uint32_t> tokens,
                       std::span<const std::uint8_t> extra) noexcept {
  Sha256 hash;
  hash.add(std::span<const std::uint8_t>(before));
  for (const std::uint32_t token : tokens)
    hash.add_le32(token);
  hash.add(extra);
  return hash.finish();
}

UnitKey key_of(const Sha256Digest& link) noexcept {
  UnitKey key;
  std::copy_n(link.begin(), key.size(), key.begin());
  return key;
}

std::string hex_of(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

} // namespace troupe::sched
