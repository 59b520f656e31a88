#include "schedulers/kv/unit_chain.hpp"

#include <algorithm>
#include <vector>

namespace troupe::sched {

Result<ChainDigest> chain_root(const ChainRoot& root, const DigestFunction& sha256) {
  struct Field {
    std::string_view name, value;
  };
  const std::array<Field, 4> fields = {{{"model", root.model},
                                        {"kv_format", root.kv_format},
                                        {"revision", root.revision},
                                        {"tenant_salt", root.tenant_salt}}};
  std::vector<std::uint8_t> bytes;
  for (const Field& field : fields) {
    const bool is_first = field.name == "model";
    if (field.value.find('|') != std::string_view::npos) {
      return {ErrorCode::bad_argument,
              std::string(field.name) + " of a store's names: found a '|' in \"" +
                  std::string(field.value) + "\", which parts the fields; leave it out"};
    }
    if (field.value.empty()) continue;
    if (!is_first) bytes.push_back('|');
    bytes.insert(bytes.end(), field.value.begin(), field.value.end());
  }
  if (root.model.empty() || root.kv_format.empty()) {
    return {ErrorCode::missing_key,
            "names of a store need a model and a kv_format; found none of one of them"};
  }
  return sha256(bytes);
}

ChainDigest next_link(const ChainDigest& before, std::span<const std::uint32_t> tokens,
                      const DigestFunction& sha256, std::span<const std::uint8_t> extra) {
  std::vector<std::uint8_t> bytes(before.begin(), before.end());
  bytes.reserve(before.size() + 4 * tokens.size() + extra.size());
  for (const std::uint32_t token : tokens) {
    for (int shift = 0; shift < 32; shift += 8) // The lowest byte first.
      bytes.push_back(static_cast<std::uint8_t>(token >> shift));
  }
  bytes.insert(bytes.end(), extra.begin(), extra.end());
  return sha256(bytes);
}

UnitKey key_of(const ChainDigest& link) noexcept {
  UnitKey key;
  std::copy_n(link.begin(), key.size(), key.begin());
  return key;
}

} // namespace troupe::sched
