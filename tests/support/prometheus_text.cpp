#include "tests/support/prometheus_text.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <regex>
#include <set>
#include <sstream>

namespace troupe::test {

namespace {

constexpr const char* kName = "[a-zA-Z_:][a-zA-Z0-9_:]*";

/// Family that a sample of this name belongs to: histograms have three kinds of samples.
std::string family_of(const std::map<std::string, std::string>& types, const std::string& name) {
  if (types.contains(name)) return name;
  for (const std::string end : {"_bucket", "_sum", "_count"}) {
    if (!name.ends_with(end)) continue;
    const std::string family = name.substr(0, name.size() - end.size());
    const auto found = types.find(family);
    if (found != types.end() && found->second == "histogram") return family;
  }
  return {};
}

class Reader {
public:
  explicit Reader(const std::string& text) {
    if (!text.empty() && text.back() != '\n') fault("the last line has no end");
    std::istringstream lines(text);
    std::string line;
    while (std::getline(lines, line)) {
      ++number_;
      if (line.empty()) {
        fault("an empty line");
      } else if (line[0] == '#') {
        take_comment(line);
      } else {
        take_sample(line);
      }
    }
    check_histograms();
  }

  PrometheusText take() { return std::move(out_); }

private:
  void fault(const std::string& what) {
    out_.faults.push_back(fmt::format("line {}: {}", number_, what));
  }

  void take_comment(const std::string& line) {
    static const std::regex form(fmt::format("# (HELP|TYPE) ({}) (.+)", kName));
    std::smatch found;
    if (!std::regex_match(line, found, form)) return fault("no HELP and no TYPE: " + line);
    const std::string name = found[2];
    if (found[1] == "HELP") {
      if (!helped_.insert(name).second) fault("a second HELP of " + name);
      return;
    }
    const std::string type = found[3];
    if (type != "counter" && type != "gauge" && type != "histogram") fault("type " + type);
    if (type == "counter" && !name.ends_with("_total")) fault("a counter without _total: " + name);
    if (!helped_.contains(name)) fault("no HELP before the TYPE of " + name);
    if (!out_.types.emplace(name, type).second) fault("a second TYPE of " + name);
  }

  void take_sample(const std::string& line) {
    static const std::regex form(fmt::format(R"re(({})(\{{(.*)\}})? (\S+))re", kName));
    std::smatch found;
    if (!std::regex_match(line, found, form)) return fault("no sample: " + line);
    const std::string name = found[1];
    const std::string family = family_of(out_.types, name);
    if (family.empty()) fault("no TYPE before " + name);
    if (family != family_ && !families_.insert(family).second) fault(family + " comes in pieces");
    family_ = family;
    const std::string value = found[4];
    char* end = nullptr;
    const double number = value == "+Inf" || value == "Inf"
                              ? std::numeric_limits<double>::infinity()
                              : std::strtod(value.c_str(), &end);
    if (end != nullptr && *end != '\0') fault("no number: " + value);
    if (number < 0 && out_.types[family] != "gauge") fault("below zero: " + line);
    const std::string key = name + labels_text(found[3]);
    if (!out_.samples.emplace(key, number).second) fault("a second " + key);
  }

  /// Labels in the order of their names, checked.
  std::string labels_text(std::string rest) {
    static const std::regex form(R"re(([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,?))re");
    std::map<std::string, std::string> labels;
    std::smatch found;
    while (!rest.empty()) {
      if (!std::regex_search(rest, found, form, std::regex_constants::match_continuous)) {
        fault("no label: " + rest);
        break;
      }
      if (!labels.emplace(found[1], found[2]).second) fault("a second label " + found[1].str());
      rest = found.suffix();
    }
    std::string out;
    for (const auto& [label, value] : labels)
      out += fmt::format("{}{}=\"{}\"", out.empty() ? "" : ",", label, value);
    return out.empty() ? out : fmt::format("{{{}}}", out);
  }

  /// Buckets ascend to +Inf, which is the count.
  void check_histograms() {
    static const std::regex form(R"re((.*)_bucket\{(.*?),?le="([^"]*)"(.*)\})re");
    std::map<std::string, std::map<double, double>> buckets;
    for (const auto& [key, value] : out_.samples) {
      std::smatch found;
      if (!std::regex_match(key, found, form)) continue;
      const std::string limit = found[3];
      const std::string labels = found[2].str() + found[4].str();
      buckets[fmt::format("{}_count{{{}}}", found[1].str(), labels)]
             [limit == "+Inf" ? std::numeric_limits<double>::infinity() : std::stod(limit)] = value;
    }
    for (const auto& [count, by_limit] : buckets) {
      double last = 0;
      for (const auto& [limit, value] : by_limit) {
        if (value < last) fault(fmt::format("{} falls at {}", count, limit));
        last = value;
      }
      if (!std::isinf(by_limit.rbegin()->first)) fault(count + " has no +Inf");
      if (!out_.samples.contains(count) || out_.samples[count] != last)
        fault(count + " is not what +Inf counts");
    }
  }

  PrometheusText out_;
  std::set<std::string> helped_;
  std::set<std::string> families_; ///< Whose samples have begun.
  std::string family_;
  int number_ = 0;
};

} // namespace

double PrometheusText::at(const std::string& sample) const {
  const auto found = samples.find(sample);
  return found == samples.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

double PrometheusText::sum(const std::string& name, const std::string& label) const {
  double out = 0;
  for (const auto& [key, value] : samples) {
    const bool is_it = key == name || key.starts_with(name + "{");
    if (is_it && key.find(label) != std::string::npos) out += value;
  }
  return out;
}

PrometheusText read_prometheus_text(const std::string& text) { return Reader(text).take(); }

} // namespace troupe::test
