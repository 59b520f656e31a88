// One kind of statement: its form, and what the ledger must hold for it to be true.

#pragma once

#include "tests/schedulers/explain/checks.hpp"

#include <functional>
#include <initializer_list>
#include <regex>
#include <string>
#include <vector>

namespace troupe::sched::testing {

using Stretch = Witness::Stretch;
using Match = std::smatch;

struct Checker {
  std::string name;
  std::regex form;
  /// What is wrong with a statement, or empty.
  std::function<std::string(const Witness&, const Stretch&, const Match&)> check;
};

/// Statements about what policies decided, and on what grounds.
std::vector<Checker> decision_checkers();
/// Statements about what happened meanwhile and before.
std::vector<Checker> course_checkers();

// -- what all of them need -----------------------------------------------------------------------

/// The words of policy_text(): policy, epoch, what else is said of it.
inline const std::string kPolicyForm = R"( policy (\S+) \(epoch (\d+)([^)]*)\))";
inline const std::string kPlacementForm = "(prefill_router|decode_balancer)";

inline std::regex form(const std::string& text) { return std::regex("^" + text + "$"); }

inline std::int64_t whole(const std::string& text) { return std::stoll(text); }

/// "850 us", "12.345 ms", "12.345678 s" in microseconds.
inline std::int64_t micros(const std::string& text) {
  std::string digits;
  for (const char c : text) {
    if (c >= '0' && c <= '9') digits += c;
  }
  return std::stoll(digits); // All places are written.
}

inline std::string differs(const char* what, std::int64_t found, std::int64_t said) {
  if (found == said) return {};
  return std::string(what) + ": the ledger has " + std::to_string(found) + ", the story says " +
         std::to_string(said);
}

inline std::string first_of(std::initializer_list<std::string> problems) {
  for (const std::string& problem : problems) {
    if (!problem.empty()) return problem;
  }
  return {};
}

template <class Question>
const AskedOf<Question>& question_of(const Record& record) {
  return **std::get_if<AskedPtr<Question>>(&*record.asked);
}

inline bool is_placement(const Record& record) {
  return record.kind == "prefill_router" || record.kind == "decode_balancer";
}

/// Ranks of the question of a placement.
inline const std::vector<RankView>& views_of(const Record& record) {
  return record.kind == "prefill_router" ? question_of<RouterQuestion>(record).question.ranks
                                         : question_of<BalancerQuestion>(record).question.ranks;
}

} // namespace troupe::sched::testing
