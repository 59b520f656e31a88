// Hit rates of the retention policies on two recorded traces: the oracles of policies.md section
// 7.3. Reads them from the shared folder and says that it skips when they are not there.

#include "schedulers/policies/retention/by_class.hpp"
#include "schedulers/policies/retention/lru.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::sched {
namespace {

struct TraceRow {
  std::int64_t at_us = 0, input = 0;
  std::vector<std::uint64_t> units;
};

std::int64_t number_after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  return at == std::string_view::npos ? 0 : std::atoll(line.data() + at + key.size());
}

/// Rows in file order; none when the trace is not there.
std::vector<TraceRow> read_trace(const std::string& name) {
  const char* set = std::getenv("TROUPE_SHARED");
  const std::string folder = set != nullptr ? set : std::string(TROUPE_SOURCE_DIR) + "/../shared";
  const std::string path = folder + "/traces/mooncake/" + name + "_trace.jsonl.gz";
  std::vector<TraceRow> rows;
  if (!std::filesystem::exists(path)) return rows;
  const std::string command = "gzip -dc '" + path + "'";
  const auto close = [](FILE* pipe) { pclose(pipe); };
  const std::unique_ptr<FILE, decltype(close)> pipe(popen(command.c_str(), "r"), close);
  std::string text;
  std::array<char, 1 << 16> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe.get()))
    text.append(buffer.data(), n);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    TraceRow row;
    row.at_us = number_after(line, "\"timestamp\": ") * 1000;
    row.input = number_after(line, "\"input_length\": ");
    const std::size_t list = line.find("\"hash_ids\": [");
    const char* at = line.c_str() + list + 13;
    while (*at != ']') {
      char* rest = nullptr;
      row.units.push_back(std::strtoull(at, &rest, 10));
      at = *rest == ',' ? rest + 1 : rest;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::size_t unique_units(const std::vector<TraceRow>& rows) {
  std::set<std::uint64_t> all;
  for (const TraceRow& row : rows)
    all.insert(row.units.begin(), row.units.end());
  return all.size();
}

struct Rates {
  double block = 0, token = 0;
};

/// In which order a request uses its units; the one used first goes first.
enum class Touch { last_first, first_first };

/// A store of equal units: what a policy keeps of them.
class Store {
public:
  /// @param capacity  units; 0 = no limit
  Store(RetentionPolicy& policy, std::size_t capacity, Touch touch = Touch::last_first)
      : policy_(policy), capacity_(capacity), touch_(touch) {}

  /// Leading units that are there, then every unit is touched.
  std::size_t serve(const TraceRow& row) {
    std::size_t hits = 0;
    while (hits < row.units.size() && present(row.units[hits], row.at_us))
      ++hits;
    if (touch_ == Touch::last_first) {
      for (auto id = row.units.rbegin(); id != row.units.rend(); ++id)
        touch(*id, row.at_us);
    } else {
      for (const std::uint64_t id : row.units)
        touch(id, row.at_us);
    }
    if (capacity_ > 0 && units_.size() > capacity_) evict(units_.size() - capacity_);
    return hits;
  }

private:
  struct Kept {
    std::int64_t order = 0, expires_us = 0;
  };

  bool present(std::uint64_t id, std::int64_t now_us) const {
    const auto found = units_.find(id);
    return found != units_.end() && now_us <= found->second.expires_us;
  }

  void touch(std::uint64_t id, std::int64_t now_us) {
    PolicyContext ctx;
    ctx.now_us = now_us;
    const auto plan = policy_.store({RetentionClass::once, 1, 2}, ctx);
    ASSERT_TRUE(plan.value->store);
    Kept& kept = units_[id];
    by_order_.erase(kept.order);
    kept = {++order_, plan.value->expires_us};
    by_order_[kept.order] = id;
  }

  /// Offers the oldest units and some others, so that the policy has a choice.
  void evict(std::size_t count) {
    std::vector<RetentionUnit> offered;
    const auto offer = [&](std::int64_t order, std::uint64_t id) {
      RetentionUnit unit;
      unit.hash = id + 1;
      unit.last_use_us = order;
      unit.bytes = 1;
      offered.push_back(unit);
    };
    for (auto young = by_order_.rbegin(); offered.size() < 8; ++young)
      offer(young->first, young->second);
    for (auto old = by_order_.begin(); offered.size() < 8 + count + 8; ++old)
      offer(old->first, old->second);
    const auto bytes = static_cast<std::int64_t>(count);
    const auto decision = policy_.evict(offered, bytes, {});
    ASSERT_TRUE(validate(decision, offered, bytes).ok());
    for (const std::uint32_t place : decision.value->units) {
      by_order_.erase(offered[place].last_use_us);
      units_.erase(offered[place].hash - 1);
    }
  }

  RetentionPolicy& policy_;
  std::size_t capacity_;
  Touch touch_;
  std::int64_t order_ = 0;
  std::map<std::uint64_t, Kept> units_;
  std::map<std::int64_t, std::uint64_t> by_order_;
};

Rates replay(RetentionPolicy& policy, std::size_t capacity, const std::vector<TraceRow>& rows,
             Touch touch = Touch::last_first) {
  constexpr std::int64_t kUnitTokens = 512;
  Store store(policy, capacity, touch);
  std::int64_t hits = 0, units = 0, hit_tokens = 0, tokens = 0;
  for (const TraceRow& row : rows) {
    const auto hit = static_cast<std::int64_t>(store.serve(row));
    hits += hit;
    units += static_cast<std::int64_t>(row.units.size());
    hit_tokens += std::min(kUnitTokens * hit, row.input);
    tokens += row.input;
  }
  return {static_cast<double>(hits) / static_cast<double>(units),
          static_cast<double>(hit_tokens) / static_cast<double>(tokens)};
}

struct Oracle {
  std::string trace;
  std::size_t units, unique;
  Rates unlimited;
  std::array<double, 2> lru; ///< At 10 % and 25 % of the unique units.
  double lru_first_first;    ///< At 10 %, when the beginning of a prompt is used first.
  std::array<double, 3> ttl; ///< 60, 300 and 600 s.
};

void judge(const Oracle& oracle) {
  const auto rows = read_trace(oracle.trace);
  if (rows.empty()) GTEST_SKIP() << "no traces beside the repository: set TROUPE_SHARED";
  ASSERT_EQ(unique_units(rows), oracle.unique);
  std::size_t units = 0;
  for (const TraceRow& row : rows)
    units += row.units.size();
  ASSERT_EQ(units, oracle.units);
  LruRetention lru;
  const Rates all = replay(lru, 0, rows);
  EXPECT_NEAR(all.block, oracle.unlimited.block, 0.0001);
  EXPECT_NEAR(all.token, oracle.unlimited.token, 0.0001);
  // The ceiling of any cache: requests that are not the first of their kind. Without a limit LRU
  // reaches it.
  const auto first = static_cast<double>(oracle.unique) / static_cast<double>(units);
  EXPECT_LE(all.block, 1 - first + 1e-12);
  EXPECT_GE(all.block, 0.95 * (1 - first));
  const double tenth = replay(lru, oracle.unique / 10, rows).block;
  const double quarter = replay(lru, oracle.unique / 4, rows).block;
  std::printf("%s: no limit %.4f, lru 10 %% %.4f, 25 %% %.4f", oracle.trace.c_str(), all.block,
              tenth, quarter);
  EXPECT_NEAR(tenth, oracle.lru[0], 0.001);
  EXPECT_NEAR(quarter, oracle.lru[1], 0.001);
  const double head = replay(lru, oracle.unique / 10, rows, Touch::first_first).block;
  EXPECT_NEAR(head, oracle.lru_first_first, 0.001);
  EXPECT_LT(head, tenth) << "beginnings are shared, so they should go last";
  constexpr std::array<std::int64_t, 3> kSeconds = {60, 300, 600};
  for (std::size_t i = 0; i < kSeconds.size(); ++i) {
    ByClassRetention policy({.once_ttl_s = kSeconds[i]});
    const double rate = replay(policy, 0, rows).block;
    std::printf(", ttl %d s %.4f", static_cast<int>(kSeconds[i]), rate);
    EXPECT_NEAR(rate, oracle.ttl[i], 0.001);
  }
  std::printf("\n");
}

TEST(RetentionTrace, Conversation) {
  judge({"conversation",
         288'500,
         182'790,
         {0.3664, 0.3736},
         {0.2789, 0.3535},
         0.2784,
         {0.1034, 0.2877, 0.3434}});
}

TEST(RetentionTrace, Synthetic) {
  judge({"synthetic",
         121'877,
         43'924,
         {0.6396, 0.6512},
         {0.2623, 0.4441},
         0.2598,
         {0.3217, 0.5844, 0.6340}});
}

} // namespace
} // namespace troupe::sched
