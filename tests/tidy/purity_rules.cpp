// What the code that decides must not call or hold.

#include "tests/tidy/rules.hpp"

#include <algorithm>
#include <regex>

namespace troupe::tidy {

namespace {

struct Ban {
  std::regex form;
  std::string_view why;
  std::vector<std::string_view> except; ///< Files that may.
};

const std::vector<Ban>& bans() {
  static const std::vector<Ban> all = {
      {std::regex(R"(\b(std::chrono|system_clock|steady_clock|clock_gettime|gettimeofday)\b)"),
       "time is an argument",
       {}},
      {std::regex(R"((^|[^\w.>])(std::)?(time|clock|localtime|gmtime)\s*\()"),
       "time is an argument",
       {}},
      {std::regex(R"(\b(random_device|mt19937(_64)?|default_random_engine|s?rand\s*\())"),
       "chance comes from troupe::Rng, which is an argument",
       {}},
      {std::regex(R"(\bstd::(j?thread|mutex|shared_mutex|recursive_mutex|atomic|async|future)\b)"),
       "a stage belongs to one thread and needs no lock",
       {}},
      {std::regex(R"(\b(sleep_for|sleep_until|usleep|nanosleep|sleep\s*\())"), "nothing waits", {}},
      {std::regex(R"(\b(fopen|fread|fwrite|freopen|ifstream|ofstream|fstream|getenv)\b)"),
       "no file and no environment is read or written",
       {}},
      {std::regex(R"(\bstd::(cout|cerr|clog|cin)\b)"), "nothing is printed", {}},
      {std::regex(R"((^|[^\w])(printf|puts|putchar)\s*\()"), "nothing is printed", {}},
      {std::regex(R"(\bcaf::)"), "no actor is known", {}},
      {std::regex(R"(\bunordered_(multi)?(map|set)\b)"), "the order of a hash map is no order", {}},
      // Options come as text, and the getter of fractions makes thousandths of them. The closed
      // form of the largest chunk is a first guess, which exact integers then correct.
      {std::regex(R"(\b(float|double)\b)"),
       "integers decide; a float travels as its bits",
       {"schedulers/core/options.hpp", "schedulers/core/options.cpp",
        "schedulers/model/cost_model.cpp"}},
      {std::regex(R"(\bstd::(map|set|less)<[^,<>]*\*)"), "the order of pointers is no order", {}},
      {std::regex(R"((^|[^\w])throw\b)"), "an expected failure is a Result", {}},
  };
  return all;
}

} // namespace

std::vector<Violation> check_purity(const SourceFile& file) {
  std::vector<Violation> out;
  if (!file.path.starts_with("schedulers/")) return out;
  std::int64_t number = 0;
  for (const std::string& line : lines_of(without_comments_and_literals(file.text))) {
    ++number;
    for (const Ban& ban : bans()) {
      std::smatch match;
      if (std::find(ban.except.begin(), ban.except.end(), file.path) != ban.except.end()) continue;
      if (!std::regex_search(line, match, ban.form)) continue;
      out.push_back({file.path, number, match.str() + ": " + std::string(ban.why)});
    }
  }
  return out;
}

} // namespace troupe::tidy
