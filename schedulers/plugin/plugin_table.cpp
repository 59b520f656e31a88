#include "schedulers/plugin/plugin_table.hpp"

#include "schedulers/core/options.hpp"
#include "schedulers/core/printable.hpp"

#include <map>
#include <utility>

namespace troupe::sched {
namespace {

constexpr std::uint32_t kPoliciesMax = 256; ///< Of one library.
constexpr std::size_t kNameMax = 64;        ///< Bytes of a kind or a name.
constexpr std::size_t kTextMax = 65'536;    ///< Bytes of a version or a schema.

/// Size of each kind's table in minor version 0: with less, its decide is not there.
const std::map<std::string, std::size_t>& table_sizes() {
  static const std::map<std::string, std::size_t> sizes = {
      {"admission", sizeof(troupe_admission)},
      {"queue", sizeof(troupe_queue)},
      {"prefill_router", sizeof(troupe_prefill_router)},
      {"prefill_chunker", sizeof(troupe_prefill_chunker)},
      {"handoff", sizeof(troupe_handoff)},
      {"decode_balancer", sizeof(troupe_decode_balancer)},
      {"step", sizeof(troupe_step)},
      {"overlap", sizeof(troupe_overlap)}};
  return sizes;
}

Error wrong(std::string what) { return {ErrorCode::unsupported, std::move(what)}; }

/// At most `most` bytes of a text that should end before; longer ones come without their end.
std::string text_of(const char* text, std::size_t most) {
  if (text == nullptr) return {};
  const void* end = std::memchr(text, 0, most + 1);
  return end == nullptr ? std::string(text, most + 1) : std::string(text);
}

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= kNameMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
         });
}

std::string size_text(const char* what, std::uint32_t found, std::size_t expected) {
  return std::string(what) + " has " + std::to_string(found) + " bytes, expected at least " +
         std::to_string(expected) + "; set struct_size to its sizeof";
}

Status check_head(const troupe_plugin* plugin) {
  if (plugin == nullptr) {
    return wrong("troupe_plugin_entry returned NULL: the library serves no host of ABI major " +
                 std::to_string(TROUPE_ABI_MAJOR));
  }
  if (plugin->struct_size < sizeof(troupe_plugin)) {
    return wrong(size_text("troupe_plugin", plugin->struct_size, sizeof(troupe_plugin)));
  }
  if (plugin->abi_major != TROUPE_ABI_MAJOR) {
    return wrong("built for ABI major " + std::to_string(plugin->abi_major) + ", this host has " +
                 std::to_string(TROUPE_ABI_MAJOR) + "; build it with this host's policy_abi.h");
  }
  if (plugin->n < 1 || plugin->n > kPoliciesMax || plugin->policies == nullptr) {
    return wrong("holds " + std::to_string(plugin->n) + " policies, expected 1 to " +
                 std::to_string(kPoliciesMax));
  }
  return {};
}

Status check_functions(const PluginPolicy& one) {
  const std::string who = one.kind + " \"" + one.name + "\": ";
  const troupe_policy& policy = one.policy;
  if (policy.create == nullptr || policy.destroy == nullptr) {
    return wrong(who + "create and destroy must be there");
  }
  if ((policy.export_state == nullptr) != (policy.import_state == nullptr)) {
    return wrong(who + "export_state and import_state come both or not at all");
  }
  if (policy.table == nullptr) return wrong(who + "its table is NULL");
  std::uint32_t size = 0;
  std::memcpy(&size, policy.table, sizeof size);
  const std::size_t expected = table_sizes().at(one.kind);
  if (size < expected) return wrong(who + size_text("its table", size, expected));
  // The first function of every table, whatever its kind.
  struct Head {
    std::uint32_t struct_size, unused_0;
    const void* decide;
  };
  if (struct_of_library<Head>(policy.table).decide == nullptr) {
    return wrong(who + "decide is NULL");
  }
  return {};
}

Status check_names(const PluginPolicy& one) {
  if (!is_name(one.name)) {
    return wrong(one.kind + ": found " + quote(one.name) +
                 " as the name of a policy, expected 1 to " + std::to_string(kNameMax) +
                 " of a-z, 0-9 and _");
  }
  if (one.options_schema.size() > kTextMax) {
    return wrong(one.kind + " \"" + one.name + "\": options_schema is longer than " +
                 std::to_string(kTextMax) + " bytes");
  }
  return {};
}

Error unknown_kind(const std::string& kind) {
  const std::string near = nearest_name(kind, plugin_kinds());
  std::string valid;
  for (const std::string& name : plugin_kinds())
    valid += " " + name;
  return wrong("found a policy of the kind " + quote(kind) +
               (near.empty() ? "; valid:" : "; did you mean \"" + near + "\"? Valid:") + valid);
}

} // namespace

const PluginPolicy* PluginTable::find(const std::string& kind,
                                      const std::string& wanted) const noexcept {
  for (const PluginPolicy& one : policies) {
    if (one.kind == kind && one.name == wanted) return &one;
  }
  return nullptr;
}

const std::set<std::string>& plugin_kinds() {
  static const std::set<std::string> kinds = [] {
    std::set<std::string> all;
    for (const auto& [kind, size] : table_sizes())
      all.insert(kind);
    return all;
  }();
  return kinds;
}

Result<PluginTable> read_plugin(const troupe_plugin* plugin) {
  if (const Status status = check_head(plugin); !status.ok()) return status.error();
  PluginTable table{text_of(plugin->name, kNameMax), text_of(plugin->version, kNameMax), {}};
  const char* at = reinterpret_cast<const char*>(plugin->policies);
  const std::uint32_t stride = plugin->policies->struct_size;
  if (stride < sizeof(troupe_policy)) {
    return wrong(size_text("troupe_policy", stride, sizeof(troupe_policy)));
  }
  for (std::uint32_t i = 0; i < plugin->n; ++i, at += stride) {
    PluginPolicy one;
    one.policy = struct_of_library<troupe_policy>(at);
    if (one.policy.struct_size != stride) {
      return wrong("policy " + std::to_string(i) + " has another struct_size than the first");
    }
    one.kind = text_of(one.policy.kind, kNameMax);
    one.name = text_of(one.policy.name, kNameMax);
    one.options_schema = text_of(one.policy.options_schema, kTextMax);
    if (plugin_kinds().count(one.kind) == 0) {
      if (plugin->abi_minor > TROUPE_ABI_MINOR) continue; // A kind that later hosts know.
      return unknown_kind(one.kind);
    }
    if (const Status status = check_names(one); !status.ok()) return status.error();
    if (const Status status = check_functions(one); !status.ok()) return status.error();
    if (table.find(one.kind, one.name) != nullptr) {
      return wrong(one.kind + " \"" + one.name + "\" is there twice");
    }
    table.policies.push_back(std::move(one));
  }
  if (table.policies.empty()) return wrong("holds no policy of a kind that this host has");
  return table;
}

} // namespace troupe::sched
