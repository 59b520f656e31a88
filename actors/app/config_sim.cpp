#include "actors/app/config_sim.hpp"

#include "actors/app/config_bind.hpp"
#include "actors/app/trace_reader.hpp"
#include "schedulers/core/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <utility>

namespace troupe::app {

namespace {

using sim::Range;

constexpr Range kMicros = {0, 1'000'000'000'000};
constexpr Range kPermille = {0, 1000};
constexpr std::int64_t kLossMax = 900; ///< Beyond, repeats come through too rarely to wait for.
constexpr Range kTokens = {1, 1 << 24};
constexpr Range kCount = {0, 1'000'000};
constexpr std::int64_t kRanksMax = 4096;

constexpr std::array<std::pair<std::string_view, sched::Role>, 3> kRoles = {
    {{"prefill", sched::Role::prefill},
     {"decode", sched::Role::decode},
     {"both", sched::Role::both}}};
constexpr std::array<std::pair<std::string_view, sched::Reservation>, 2> kReservations = {
    {{"worst", sched::Reservation::worst}, {"expected", sched::Reservation::expected}}};
constexpr std::array<std::pair<std::string_view, sim::Arrivals>, 3> kArrivals = {
    {{"within", sim::Arrivals::within},
     {"gaps", sim::Arrivals::gaps},
     {"poisson", sim::Arrivals::poisson}}};
constexpr std::array<std::pair<std::string_view, sim::FaultKind>, 8> kFaults = {
    {{"kill", sim::FaultKind::kill},
     {"pause", sim::FaultKind::pause},
     {"stick", sim::FaultKind::stick},
     {"slow", sim::FaultKind::slow},
     {"lose", sim::FaultKind::lose},
     {"lag", sim::FaultKind::lag},
     {"cut", sim::FaultKind::cut},
     {"full", sim::FaultKind::full}}};

using Errors = std::vector<ConfigError>;

/// Reads the keys of one table; what nobody asked for is an error when it ends.
class TableReader {
public:
  TableReader(const ConfigNode* table, std::string prefix, Errors& errors)
      : table_(table), prefix_(std::move(prefix)), errors_(errors) {}
  TableReader(const TableReader&) = delete;
  TableReader& operator=(const TableReader&) = delete;
  ~TableReader() {
    if (table_ == nullptr) return;
    for (const auto& [key, node] : table_->table) {
      if (!known_.contains(key)) fail(node, key, "unknown key" + name_hint(key, known_));
    }
  }

  const ConfigNode* find(const std::string& key) {
    known_.insert(key);
    if (table_ == nullptr) return nullptr;
    const auto at = table_->table.find(key);
    return at == table_->table.end() ? nullptr : &at->second;
  }

  /// The sub-table, or null when it is absent or none.
  const ConfigNode* table(const std::string& key) {
    const ConfigNode* node = find(key);
    if (node == nullptr || node->kind == NodeKind::table) return node;
    fail(*node, key, "found " + node->shown() + ", expected a table [" + prefix_ + key + "]");
    return nullptr;
  }

  /// The tables of an array of tables.
  std::vector<const ConfigNode*> tables(const std::string& key) {
    std::vector<const ConfigNode*> out;
    const ConfigNode* node = find(key);
    if (node == nullptr) return out;
    bool good = node->kind == NodeKind::array;
    for (const ConfigNode& item : node->items) {
      good = good && item.kind == NodeKind::table;
      out.push_back(&item);
    }
    if (good) return out;
    fail(*node, key, "found " + node->shown() + ", expected tables [[" + prefix_ + key + "]]");
    return {};
  }

  void text(const std::string& key, std::string& value) {
    const ConfigNode* node = find(key);
    if (node == nullptr) return;
    if (node->kind == NodeKind::text) {
      value = node->text;
    } else {
      fail(*node, key, "found " + node->shown() + ", expected a text");
    }
  }

  template <class Enum, std::size_t N>
  void word(const std::string& key, Enum& value,
            const std::array<std::pair<std::string_view, Enum>, N>& all) {
    const ConfigNode* node = find(key);
    if (node == nullptr) return;
    std::set<std::string> names;
    for (const auto& [name, entry] : all) {
      names.insert(std::string(name));
      if (node->kind != NodeKind::text || node->text != name) continue;
      value = entry;
      return;
    }
    fail(*node, key,
         fmt::format("found {}, expected one of {}{}", node->shown(), fmt::join(names, ", "),
                     node->kind == NodeKind::text ? near(node->text, names) : std::string()));
  }

  void integer(const std::string& key, std::int64_t& value, Range allowed) {
    const ConfigNode* node = find(key);
    if (node == nullptr) return;
    if (node->kind == NodeKind::integer && within(node->integer, allowed)) {
      value = node->integer;
    } else {
      fail(*node, key, node->wrong_integer(allowed.low, allowed.high));
    }
  }

  /// Returns whether `value` is what the file says, or stays the default of an absent key.
  bool range(const std::string& key, Range& value, Range allowed) {
    const ConfigNode* node = find(key);
    if (node == nullptr || take(*node, value, allowed, allowed.low)) return true;
    fail(*node, key,
         fmt::format("found {}, expected an integer from {} to {}, or [LOW, HIGH] of such",
                     shown(*node), allowed.low, allowed.high));
    return false;
  }

  /// So many of a thousand. What a seed draws below 0 is none.
  void rate(const std::string& key, Range& value, std::int64_t highest) {
    constexpr std::int64_t kLowest = -1000;
    const ConfigNode* node = find(key);
    if (node == nullptr || take(*node, value, {0, highest}, kLowest)) return;
    fail(*node, key,
         fmt::format("found {}, expected an integer from 0 to {}, or [LOW, HIGH] of such, where "
                     "LOW may be below 0, down to {}, for seeds without any",
                     shown(*node), highest, kLowest));
  }

  void fail(const ConfigNode& node, const std::string& key, std::string message) {
    errors_.push_back({node.file, node.line, prefix_ + key, std::move(message)});
  }

  /// A node for "found ...", with the first entries of a list.
  static std::string shown(const ConfigNode& node) {
    constexpr std::size_t kItemsMax = 4;
    if (node.kind != NodeKind::array) return node.shown();
    std::string out;
    for (std::size_t i = 0; i < node.items.size() && i < kItemsMax; ++i)
      out += (out.empty() ? "" : ", ") + node.items[i].shown();
    if (node.items.size() > kItemsMax) {
      out += fmt::format(" and {} more", node.items.size() - kItemsMax);
    }
    return "an array of " + (out.empty() ? std::string("nothing") : out);
  }

private:
  /// A number within `allowed`, or a list of two whose first may go down to `lowest`.
  static bool take(const ConfigNode& node, Range& value, Range allowed, std::int64_t lowest) {
    if (node.kind == NodeKind::integer && within(node.integer, allowed)) {
      value = node.integer;
      return true;
    }
    if (node.kind != NodeKind::array || node.items.size() != 2) return false;
    const ConfigNode& low = node.items[0];
    const ConfigNode& high = node.items[1];
    const bool good = low.kind == NodeKind::integer && high.kind == NodeKind::integer &&
                      within(low.integer, {lowest, allowed.high}) &&
                      within(high.integer, {lowest, allowed.high}) && low.integer <= high.integer;
    if (good) value = {low.integer, high.integer};
    return good;
  }
  static bool within(std::int64_t value, Range allowed) {
    return value >= allowed.low && value <= allowed.high;
  }
  static std::string near(const std::string& word, const std::set<std::string>& names) {
    const std::string nearest = nearest_name(word, names);
    return nearest.empty() ? std::string() : "; did you mean " + quote(nearest) + "?";
  }

  const ConfigNode* table_;
  std::string prefix_;
  Errors& errors_;
  std::set<std::string> known_;
};

std::string beside(const ConfigNode& node) {
  const auto folder = std::filesystem::path(node.file).parent_path();
  return (folder / node.text).lexically_normal().string();
}

// -- tables --------------------------------------------------------------------------------------

void bind_ranks(TableReader& root, sim::Scenario& scenario, Errors& errors) {
  std::set<std::string> names;
  for (const ConfigNode* node : root.tables("rank")) {
    sim::RankGroupSpec group;
    const std::size_t before = errors.size();
    {
      TableReader reader(node, "rank.", errors);
      reader.text("name", group.name);
      reader.word("role", group.role, kRoles);
      reader.range("count", group.count, {0, kRanksMax});
      reader.range("kv_blocks", group.kv_blocks, {1, 1 << 30});
      reader.range("slots", group.slots, {1, 65'536});
      reader.range("step_tokens_max", group.step_tokens_max, {1, 1'000'000});
      reader.range("context_max", group.context_max, {0, 1 << 24});
    }
    if (group.name.empty()) group.name = sched::role_name(group.role);
    // A group with a mistake may have another name than was meant.
    if (errors.size() == before && !names.insert(group.name).second) {
      errors.push_back({node->file, node->line, "rank.name",
                        "found a second group " + quote(group.name) +
                            ", expected distinct names; give one of them another name"});
    }
    scenario.ranks.push_back(std::move(group));
  }
}

void check_ranks(const ConfigNode& root, const sim::Scenario& scenario, Errors& errors) {
  bool prefill = false;
  bool decode = false;
  std::int64_t count = 0;
  for (const sim::RankGroupSpec& group : scenario.ranks) {
    prefill = prefill || (sched::prefills(group.role) && group.count.low > 0);
    decode = decode || (sched::decodes(group.role) && group.count.low > 0);
    count += group.count.high;
  }
  const auto list = root.table.find("rank");
  const ConfigNode& place = list == root.table.end() ? root : list->second;
  if (!prefill || !decode) {
    const char* found = prefill ? "none that decodes" : decode ? "none that prefills" : "no rank";
    errors.push_back(
        {place.file, place.line, "rank",
         fmt::format("found {}, expected [[rank]] tables with at least one rank that prefills and "
                     "one that decodes; add role = \"both\", or one of each",
                     found)});
  }
  if (count > kRanksMax) {
    errors.push_back({place.file, place.line, "rank.count",
                      fmt::format("found up to {} ranks, expected at most {}", count, kRanksMax)});
  }
}

void bind_cost(const ConfigNode* node, sched::CostModel& cost, Errors& errors) {
  TableReader reader(node, "cost_model.", errors);
  constexpr Range kPicos = {0, 1'000'000'000'000'000};
  reader.integer("step", cost.step_ps, kPicos);
  reader.integer("token", cost.token_ps, kPicos);
  reader.integer("pair", cost.pair_ps, kPicos);
  reader.integer("sequence", cost.sequence_ps, kPicos);
  reader.integer("context_token", cost.context_token_ps, kPicos);
  if (node != nullptr && cost.sequence_ps == 0 && cost.context_token_ps == 0) {
    reader.fail(*node, "sequence",
                "found sequence = context_token = 0, expected one of them above 0: a balancer "
                "would see no load");
  }
}

void bind_trace(TableReader& reader, sim::WorkloadSpec& spec) {
  std::int64_t rows = 1'000'000;
  reader.integer("trace_rows", rows, {1, 10'000'000});
  const ConfigNode* node = reader.find("trace");
  if (node == nullptr) return;
  if (node->kind != NodeKind::text || node->text.empty()) {
    reader.fail(*node, "trace", "found " + node->shown() + ", expected the path of a trace");
    return;
  }
  auto trace = read_trace(beside(*node), rows);
  if (trace.ok()) {
    spec.rows = std::move(*trace);
  } else {
    reader.fail(*node, "trace", trace.error().message);
  }
}

void bind_workload(const ConfigNode* node, sim::WorkloadSpec& spec, Errors& errors) {
  TableReader reader(node, "workload.", errors);
  reader.range("requests", spec.requests, {1, 10'000'000});
  reader.word("arrivals", spec.arrivals, kArrivals);
  reader.range("start_us", spec.start_us, kMicros);
  reader.range("window_us", spec.window_us, kMicros);
  reader.range("gap_us", spec.gap_us, kMicros);
  reader.range("prompt", spec.prompt, kTokens);
  reader.range("new_tokens", spec.new_tokens, kTokens);
  reader.integer("ends_itself_permille", spec.ends_itself_permille, kPermille);
  reader.integer("abandon_permille", spec.abandon_permille, kPermille);
  reader.integer("stop_permille", spec.stop_permille, kPermille);
  reader.range("leave_after_us", spec.leave_after_us, kMicros);
  bind_trace(reader, spec);
  for (const ConfigNode* tenant : reader.tables("tenant")) {
    TableReader one(tenant, "workload.tenant.", errors);
    sim::TenantSpec made;
    one.text("name", made.name);
    one.integer("share", made.share, {1, 1'000'000});
    spec.tenants.push_back(std::move(made));
  }
}

void bind_limits(const ConfigNode* node, sim::LimitsSpec& limits, Errors& errors) {
  TableReader reader(node, "limits.", errors);
  reader.range("requests_max", limits.requests_max, {1, 10'000'000});
  reader.range("queue_max", limits.queue_max, {1, 10'000'000});
  reader.range("attempts_max", limits.attempts_max, {1, 1000});
  reader.range("request_timeout_us", limits.request_timeout_us, kMicros);
  reader.range("no_progress_us", limits.no_progress_us, {1, kMicros.high});
  reader.range("stuck_after_us", limits.stuck_after_us, {1, kMicros.high});
  reader.range("lease_us", limits.lease_us, {100, kMicros.high});
  reader.range("handoff_timeout_us", limits.handoff_timeout_us, {100, kMicros.high});
  reader.range("assign_again_us", limits.assign_again_us, {100, kMicros.high});
  reader.range("retry_us", limits.retry_us, {1, kMicros.high});
  reader.word("reserve", limits.reserve, kReservations);
  reader.range("expected_permille", limits.expected_permille, {1, 1000});
  reader.range("preemptions_max", limits.preemptions_max, {0, 1'000'000});
}

void bind_rates(TableReader& root, sim::Scenario& scenario, Errors& errors) {
  {
    TableReader reader(root.table("network"), "network.", errors);
    sim::NetworkSpec& network = scenario.network;
    const bool low_good = reader.range("delay_us_min", network.delay_us_min, kMicros);
    const bool high_good = reader.range("delay_us_max", network.delay_us_max, {1, kMicros.high});
    reader.rate("loss_permille", network.loss_permille, kLossMax);
    if (const ConfigNode* highest = reader.find("delay_us_max");
        low_good && high_good && highest != nullptr &&
        network.delay_us_min.high > network.delay_us_max.low)
      reader.fail(*highest, "delay_us_max",
                  fmt::format("found {}, expected at least delay_us_min, which is up to {}; raise "
                              "one or lower the other",
                              network.delay_us_max.low, network.delay_us_min.high));
  }
  TableReader reader(root.table("engine"), "engine.", errors);
  reader.rate("host_us", scenario.engine.host_us, kMicros.high);
  reader.rate("row_failure_permille", scenario.engine.row_failure_permille, 1000);
  reader.rate("step_failure_permille", scenario.engine.step_failure_permille, 1000);
  reader.rate("export_failure_permille", scenario.engine.export_failure_permille, 1000);
  reader.rate("import_failure_permille", scenario.engine.import_failure_permille, 1000);
  reader.rate("damage_permille", scenario.engine.damage_permille, 1000);
  reader.range("copy_us", scenario.engine.copy_us, kMicros);
}

bool names_a_rank(const std::string& name, const sim::Scenario& scenario) {
  if (name.empty()) return true;
  for (const sim::RankGroupSpec& group : scenario.ranks) {
    if (name == sched::role_name(group.role)) return true;
    for (std::int64_t i = 0; i < group.count.high; ++i) {
      if (name == fmt::format("{}-{}", group.name, i)) return true;
    }
  }
  return false;
}

/// @param ranks_good  without mistakes, so that names of ranks can be looked up
void bind_faults(TableReader& root, sim::Scenario& scenario, bool ranks_good, Errors& errors) {
  for (const ConfigNode* node : root.tables("fault")) {
    sim::FaultSpec fault;
    TableReader reader(node, "fault.", errors);
    if (reader.find("kind") == nullptr) {
      reader.fail(*node, "kind", "it is missing; a fault says what happens, as in kind = \"kill\"");
    }
    reader.word("kind", fault.kind, kFaults);
    reader.text("rank", fault.rank);
    reader.range("count", fault.count, kCount);
    reader.range("at_us", fault.at_us, kMicros);
    reader.range("for_us", fault.for_us, {-1, kMicros.high});
    reader.range("noticed_us", fault.noticed_us, {-1, kMicros.high});
    reader.range("amount", fault.amount, kMicros);
    if (ranks_good && !names_a_rank(fault.rank, scenario)) {
      reader.fail(*node, "rank",
                  "found " + quote(fault.rank) +
                      ", expected the name of a rank as in \"decode-0\", a role, or \"\" for any");
    }
    scenario.faults.push_back(std::move(fault));
  }
}

ErrorCode code_of(const std::string& name, std::set<std::string>& names) {
  ErrorCode found = ErrorCode::io_error; // Not the end of any request.
  for (int number = 0; number < 600; ++number) {
    const auto code = static_cast<ErrorCode>(number);
    const std::string_view known = error_name(code);
    if (known == "unknown") continue;
    if (number == 0 || (number >= 300 && number < 600)) names.insert(std::string(known));
    if (known == name) found = code;
  }
  return found;
}

void bind_expect(const ConfigNode* node, sim::Expect& expect, Errors& errors) {
  TableReader reader(node, "expect.", errors);
  reader.integer("ttft_us_max", expect.ttft_us_max, kMicros);
  reader.integer("e2e_us_max", expect.e2e_us_max, kMicros);
  reader.integer("span_us_max", expect.span_us_max, kMicros);
  reader.integer("retried_min", expect.retried_min, kCount);
  reader.integer("retried_max", expect.retried_max, kCount);
  const ConfigNode* endings = reader.table("endings");
  if (endings == nullptr) return;
  TableReader counts(endings, "expect.endings.", errors);
  for (const auto& [name, value] : endings->table) {
    std::set<std::string> names;
    const ErrorCode code = code_of(name, names);
    Range count;
    counts.range(name, count, {0, 10'000'000});
    if (!names.contains(name)) {
      counts.fail(value, name, "no request ends with this" + name_hint(name, names));
    }
    expect.endings.emplace_back(code, count);
  }
}

// -- policies ------------------------------------------------------------------------------------

/// Takes the kinds whose `policy` is an array out: each seed draws one of its names. A kind whose
/// array is wrong is taken out of the table.
void take_drawn(ConfigNode& table, sim::Scenario& scenario, Errors& errors) {
  std::set<std::string> wrong;
  for (auto& [kind, node] : table.table) {
    const auto at = node.table.find("policy");
    if (at == node.table.end() || at->second.kind != NodeKind::array) continue;
    ConfigNode& policy = at->second;
    std::vector<std::string> names;
    for (const ConfigNode& item : policy.items) {
      if (item.kind == NodeKind::text) names.push_back(item.text);
    }
    if (names.empty() || names.size() != policy.items.size()) {
      errors.push_back({policy.file, policy.line, "policies." + kind + ".policy",
                        "found " + TableReader::shown(policy) +
                            ", expected names of policies, as in [\"fcfs\", \"sjf\"]; or leave "
                            "it out for the default"});
      wrong.insert(kind);
      continue;
    }
    policy.items.clear();
    policy.kind = NodeKind::text;
    policy.text = names.front();
    scenario.drawn_policies.emplace(kind, std::move(names));
  }
  std::erase_if(table.table, [&](const auto& entry) { return wrong.contains(entry.first); });
}

/// The set of inline tables; every name that a seed may draw is tried.
PolicyOutcome bind_inline(ConfigNode table, const sched::PolicyRegistry& registry,
                          const sim::Scenario& scenario) {
  ConfigNode name;
  name.kind = NodeKind::text;
  name.text = scenario.name.empty() ? "scenario" : scenario.name;
  table.table.insert_or_assign("name", name);
  PolicyOutcome outcome = bind_policy_set(table, registry);
  for (const auto& [kind, names] : scenario.drawn_policies) {
    for (const std::string& one : names) {
      if (!outcome.ok()) break;
      table.table[kind].table["policy"].text = one;
      outcome.errors = bind_policy_set(table, registry).errors;
    }
  }
  for (ConfigError& error : outcome.errors)
    error.key = "policies." + error.key;
  return outcome;
}

void bind_policies(const ConfigNode* node, const sched::PolicyRegistry& registry,
                   sim::Scenario& scenario, Errors& errors) {
  if (node == nullptr) return;
  ConfigNode own; // The keys that are no kinds.
  ConfigNode kinds = *node;
  for (const char* key : {"file", "bad_decision_permille"}) {
    const auto at = kinds.table.find(key);
    if (at == kinds.table.end()) continue;
    own.table.emplace(key, at->second);
    kinds.table.erase(at);
  }
  TableReader reader(&own, "policies.", errors);
  reader.rate("bad_decision_permille", scenario.bad_decision_permille, 1000);
  std::string file;
  reader.text("file", file);
  take_drawn(kinds, scenario, errors);
  PolicyOutcome outcome;
  if (file.empty()) {
    outcome = bind_inline(std::move(kinds), registry, scenario);
  } else {
    outcome = load_policy_file(beside(own.table.at("file")), registry);
    for (const auto& [kind, extra] : kinds.table)
      reader.fail(extra, kind, "found a kind beside policies.file, expected one or the other");
  }
  errors.insert(errors.end(), outcome.errors.begin(), outcome.errors.end());
  scenario.policies = std::move(outcome.set);
}

void bind_run(TableReader& root, sim::Scenario& scenario) {
  std::string about;
  root.text("name", scenario.name);
  root.text("about", about);
  Range seeds = 1;
  root.range("seeds", seeds, {0, 1LL << 62});
  scenario.seed_first = static_cast<std::uint64_t>(seeds.low);
  scenario.seed_last = static_cast<std::uint64_t>(seeds.high);
  root.integer("limit_us", scenario.limit_us, {1, kMicros.high});
  root.integer("settle_us", scenario.settle_us, kMicros);
  root.integer("walk_every", scenario.walk_every, {1, 1'000'000'000});
  root.integer("block_tokens", scenario.block_tokens, {1, 65'536});
}

} // namespace

SimOutcome bind_scenario(const ConfigNode& root, const sched::PolicyRegistry& registry) {
  SimOutcome outcome;
  sim::Scenario& scenario = outcome.scenario;
  Errors& errors = outcome.errors;
  {
    TableReader reader(&root, "", errors);
    bind_run(reader, scenario);
    const std::size_t before = errors.size();
    bind_ranks(reader, scenario, errors);
    const bool ranks_good = errors.size() == before;
    bind_cost(reader.table("cost_model"), scenario.cost_model, errors);
    bind_workload(reader.table("workload"), scenario.workload, errors);
    bind_limits(reader.table("limits"), scenario.limits, errors);
    bind_rates(reader, scenario, errors);
    bind_faults(reader, scenario, ranks_good, errors);
    bind_policies(reader.table("policies"), registry, scenario, errors);
    if (const ConfigNode* targets = reader.table("targets")) {
      TableReader one(targets, "targets.", errors);
      one.integer("ttft_us", scenario.targets.ttft_us, kMicros);
      one.integer("tpot_us", scenario.targets.tpot_us, kMicros);
    }
    bind_expect(reader.table("expect"), scenario.expect, errors);
  }
  if (errors.empty()) check_ranks(root, scenario, errors);
  std::stable_sort(errors.begin(), errors.end(),
                   [](const ConfigError& a, const ConfigError& b) { return a.line < b.line; });
  return outcome;
}

} // namespace troupe::app
