// What the code that decides must not call or hold.

#include "tests/tidy/rules.hpp"

#include <algorithm>
#include <cctype>
#include <regex>

namespace troupe::tidy {

namespace {

struct Ban {
  std::vector<std::string_view> words; ///< Whole words.
  bool is_call = false;                ///< Only before a parenthesis, and not of an object.
  std::string_view why;
  std::vector<std::string_view> except = {}; ///< Files that may.
};

const std::vector<Ban>& bans() {
  static const std::vector<Ban> all = {
      {{"chrono", "system_clock", "steady_clock", "clock_gettime", "gettimeofday"},
       false,
       "time is an argument"},
      {{"time", "clock", "localtime", "gmtime"}, true, "time is an argument"},
      {{"random_device", "mt19937", "mt19937_64", "default_random_engine"},
       false,
       "chance comes from troupe::Rng, which is an argument"},
      {{"rand", "srand"}, true, "chance comes from troupe::Rng, which is an argument"},
      {{"thread", "jthread", "mutex", "shared_mutex", "recursive_mutex", "atomic", "async",
        "future"},
       false,
       "a stage belongs to one thread and needs no lock"},
      {{"sleep_for", "sleep_until", "usleep", "nanosleep"}, false, "nothing waits"},
      {{"sleep"}, true, "nothing waits"},
      {{"fopen", "fread", "fwrite", "freopen", "ifstream", "ofstream", "fstream", "getenv"},
       false,
       "no file and no environment is read or written"},
      {{"cout", "cerr", "clog", "cin"}, false, "nothing is printed"},
      {{"printf", "puts", "putchar"}, true, "nothing is printed"},
      {{"caf"}, false, "no actor is known"},
      {{"unordered_map", "unordered_set", "unordered_multimap", "unordered_multiset"},
       false,
       "the order of a hash map is no order"},
      // Options come as text, and the getter of fractions makes thousandths of them. The closed
      // form of the largest chunk is a first guess, which exact integers then correct.
      {{"float", "double"},
       false,
       "integers decide; a float travels as its bits",
       {"schedulers/core/options.hpp", "schedulers/core/options.cpp",
        "schedulers/model/cost_model.cpp"}},
      {{"throw"}, false, "an expected failure is a Result"},
  };
  return all;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Whether `word` stands in the line as a whole word, and as a call if that is asked for.
bool holds(std::string_view line, std::string_view word, bool is_call) {
  for (std::size_t at = line.find(word); at != std::string_view::npos;
       at = line.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const char before = at == 0 ? ' ' : line[at - 1];
    if (is_word(before) || (end < line.size() && is_word(line[end]))) continue;
    if (!is_call) return true;
    const std::size_t next = line.find_first_not_of(' ', end);
    const bool opens = next != std::string_view::npos && line[next] == '(';
    if (opens && before != '.' && before != '>') return true;
  }
  return false;
}

/// Whether a line declares a set or map that is ordered by address.
bool orders_pointers(const std::string& line) {
  static const std::regex form(R"(\bstd::(map|set|less)<[^,<>]*\*)");
  return line.find('*') != std::string::npos && std::regex_search(line, form);
}

} // namespace

std::vector<Violation> check_purity(const SourceFile& file) {
  std::vector<Violation> out;
  if (!file.path.starts_with("schedulers/")) return out;
  std::int64_t number = 0;
  for (const std::string& line : lines_of(without_comments_and_literals(file.text))) {
    ++number;
    if (orders_pointers(line)) {
      out.push_back({file.path, number, "the order of pointers is no order"});
    }
    for (const Ban& ban : bans()) {
      if (std::find(ban.except.begin(), ban.except.end(), file.path) != ban.except.end()) continue;
      for (const std::string_view word : ban.words) {
        if (!holds(line, word, ban.is_call)) continue;
        out.push_back({file.path, number, std::string(word) + ": " + std::string(ban.why)});
        break;
      }
    }
  }
  return out;
}

} // namespace troupe::tidy
