// A reader of the Prometheus text format 0.0.4 that is as strict as its checker: names, types,
// labels, numbers, histograms.

#pragma once

#include <map>
#include <string>
#include <vector>

namespace troupe::test {

/// A file of metrics, read.
struct PrometheusText {
  std::map<std::string, std::string> types; ///< Family to "counter", "gauge" or "histogram".
  /// Sample as it stands, labels in the order of their names: name{a="x",b="y"}.
  std::map<std::string, double> samples;
  std::vector<std::string> faults; ///< "line N: what is wrong"; empty when all is well.

  /// Of one sample; NaN when there is none.
  double at(const std::string& sample) const;
  /// Of all samples of a name whose labels hold `label`, "" = any.
  double sum(const std::string& name, const std::string& label = "") const;
};

PrometheusText read_prometheus_text(const std::string& text);

} // namespace troupe::test
