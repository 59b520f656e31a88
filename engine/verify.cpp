#include "engine/verify.hpp"

#include "engine/verify_run.hpp"
#include "schedulers/core/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

namespace troupe::engine {

namespace {

constexpr double kOffBound = 5e-5;    ///< Of a tensor's largest value.
constexpr double kRowBound = 1e-4;    ///< Of a tensor's largest value, for one row.
constexpr double kRowLimit = 0.15;    ///< No row may be beyond.
constexpr double kRowsWithin = 0.94;  ///< Share of rows within kRowBound.
constexpr double kMarginBound = 1e-4; ///< Of the row's largest score.
constexpr double kSmallest = 1e-9;    ///< Stands in for the largest value of a zero tensor.

/// What a golden name means: "sim.layers.3.topk" is layer 3, leaf "topk".
struct GoldenName {
  std::string quant;
  std::int64_t layer = -1;
  std::string leaf;
};

std::optional<GoldenName> parse_name(std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  GoldenName out{std::string(name.substr(0, dot)), -1, std::string(name.substr(dot + 1))};
  if (out.quant != "off" && out.quant != "sim") return std::nullopt;
  constexpr std::string_view kLayers = "layers.";
  if (out.leaf.starts_with(kLayers)) {
    const char* begin = out.leaf.data() + kLayers.size();
    const char* end = out.leaf.data() + out.leaf.size();
    const auto [rest, error] = std::from_chars(begin, end, out.layer);
    if (error != std::errc{} || rest == end || *rest != '.') return std::nullopt;
    out.leaf = std::string(rest + 1, end);
  }
  return out;
}

bool of_unbuilt_part(const std::string& leaf) {
  return leaf.starts_with("spec.") || leaf.starts_with("replay.") || leaf.starts_with("hit.");
}

std::optional<TraceTensor> dense_kind(const std::string& leaf) {
  static const std::map<std::string, TraceTensor> kKinds = {
      {"attn_in", TraceTensor::attn_in},
      {"q", TraceTensor::q},
      {"window_rows", TraceTensor::window_rows},
      {"attn_out", TraceTensor::attn_out},
      {"moe_out", TraceTensor::moe_out},
      {"streams", TraceTensor::streams},
      {"mix", TraceTensor::mix},
  };
  const auto it = kKinds.find(leaf);
  return it == kKinds.end() ? std::nullopt : std::optional(it->second);
}

/// Row indices of the traced tensor that a stored float tensor holds, and where to find them.
struct Source {
  const TracedRows<float>* rows = nullptr;
  std::vector<std::int64_t> picked;
};

/// Compares everything of one quantisation of one file with one run.
class Judge {
public:
  Judge(const GoldenFile& file, const GoldenRun& run, const ModelConfig& config,
        const std::string& quant)
      : file_(file), run_(run), c_(config), off_(quant == "off") {
    report_.quant = quant;
  }

  VerifyQuant judge();

private:
  bool judge_numbers(const std::string& name, const GoldenName& parts, const GoldenTensor& stored);
  bool judge_tensor(const std::string& name, const GoldenName& parts, const GoldenTensor& stored);
  Source source_of(const GoldenName& parts, const GoldenTensor& stored);
  void judge_floats(const std::string& name, const GoldenTensor& stored, const Source& source);
  void judge_ids(const std::string& name, const GoldenName& parts, const GoldenTensor& stored);
  bool ids_judged(const GoldenName& parts, std::int64_t row) const;
  void judge_greedy();
  void fail(VerifyTensor& tensor, std::string why);
  std::vector<std::int64_t> all_rows() const;

  const GoldenFile& file_;
  const GoldenRun& run_;
  const ModelConfig& c_;
  const bool off_;
  TracedRows<float> taps_;
  VerifyQuant report_;
};

void Judge::fail(VerifyTensor& tensor, std::string why) {
  tensor.outcome = VerifyOutcome::failed;
  tensor.note = why;
  report_.passed = false;
  report_.problems.push_back(fmt::format("{}: {}", tensor.name, why));
}

std::vector<std::int64_t> Judge::all_rows() const {
  std::vector<std::int64_t> rows(file_.prompt.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<std::int64_t>(i);
  return rows;
}

/// Mean over the streams at the entry of the draft module's target layers, side by side.
TracedRows<float> taps_of(const GoldenRun& run, const ModelConfig& c) {
  TracedRows<float> out;
  const auto targets = static_cast<std::int64_t>(c.draft.target_layers.size());
  out.cols = targets * c.hidden;
  for (std::int64_t i = 0; i < targets; ++i) {
    const std::int64_t layer = c.draft.target_layers[static_cast<std::size_t>(i)];
    const TracedRows<float>& entry = run.trace.floats(layer, TraceTensor::layer_entry);
    out.data.resize(static_cast<std::size_t>(entry.rows() * out.cols));
    for (std::int64_t t = 0; t < entry.rows(); ++t) {
      for (std::int64_t column = 0; column < c.hidden; ++column) {
        float sum = 0.0F;
        for (std::int64_t k = 0; k < c.hc_streams; ++k) {
          sum += entry.row(t)[k * c.hidden + column];
        }
        out.data[static_cast<std::size_t>(t * out.cols + i * c.hidden + column)] =
            sum / static_cast<float>(c.hc_streams);
      }
    }
  }
  return out;
}

Source Judge::source_of(const GoldenName& parts, const GoldenTensor& stored) {
  Source out;
  const std::vector<std::int64_t> traced(file_.trace_rows.begin(), file_.trace_rows.end());
  if (parts.layer < 0) {
    if (parts.leaf == "logits" || parts.leaf == "last_logits") {
      out.rows = &run_.trace.floats(c_.layers, TraceTensor::logits);
      out.picked = parts.leaf == "logits"
                       ? traced
                       : std::vector{static_cast<std::int64_t>(file_.prompt.size()) - 1};
    } else if (parts.leaf == "taps") {
      taps_ = taps_of(run_, c_);
      out.rows = &taps_;
      out.picked = traced;
    }
    return out;
  }
  if (const std::optional<TraceTensor> kind = dense_kind(parts.leaf)) {
    out.rows = &run_.trace.floats(parts.layer, *kind);
    out.picked = file_.layerwise ? all_rows() : traced;
  } else if (parts.leaf == "router_weights") {
    out.rows = &run_.trace.floats(parts.layer, TraceTensor::router_weights);
    out.picked = all_rows();
  } else if (parts.leaf == "compressed_rows" || parts.leaf == "index_keys") {
    out.rows =
        &run_.trace.floats(parts.layer, parts.leaf == "index_keys" ? TraceTensor::index_keys
                                                                   : TraceTensor::compressed_rows);
    // The newest rows are stored.
    const std::int64_t first = out.rows->rows() - stored.rows();
    for (std::int64_t i = 0; i < stored.rows(); ++i)
      out.picked.push_back(first + i);
  }
  return out;
}

/// Whether the stored floats are numbers; otherwise the tensor fails. A margin may be infinite:
/// nothing was left out.
bool Judge::judge_numbers(const std::string& name, const GoldenName& parts,
                          const GoldenTensor& stored) {
  const bool is_margin = parts.leaf.ends_with("margin");
  const auto is_number = [&](float value) {
    return is_margin ? !std::isnan(value) : std::isfinite(value);
  };
  const auto odd = std::ranges::find_if_not(stored.floats, is_number);
  if (odd == stored.floats.end()) return true;
  VerifyTensor tensor{.name = name};
  fail(tensor, fmt::format("holds {} as number {}, expected finite numbers: the file is damaged",
                           real_text(*odd), odd - stored.floats.begin()));
  report_.tensors.push_back(tensor);
  return false;
}

void Judge::judge_floats(const std::string& name, const GoldenTensor& stored,
                         const Source& source) {
  VerifyTensor tensor{.name = name};
  const auto picked = static_cast<std::int64_t>(source.picked.size());
  const std::int64_t cols = source.rows->cols;
  tensor.rows = picked;
  const bool reachable = std::ranges::all_of(
      source.picked, [&](std::int64_t row) { return row >= 0 && row < source.rows->rows(); });
  if (!stored.is_float || !reachable || stored.size() != picked * cols) {
    if (stored.size() == 0 && picked == 0) {
      tensor.outcome = VerifyOutcome::passed;
    } else {
      fail(tensor, fmt::format("has shape {}, the engine has {} rows of {}",
                               shape_text(stored.shape), source.rows->rows(), cols));
    }
    report_.tensors.push_back(tensor);
    return;
  }
  double largest = kSmallest;
  for (const float value : stored.floats)
    largest = std::max(largest, std::fabs(double{value}));
  const double bound = off_ ? kOffBound : kRowBound;
  for (std::int64_t i = 0; i < picked; ++i) {
    const float* got = source.rows->row(source.picked[static_cast<std::size_t>(i)]);
    double row_error = 0.0;
    for (std::int64_t k = 0; k < cols; ++k) {
      const double gap = std::fabs(double{got[k]} -
                                   double{stored.floats[static_cast<std::size_t>(i * cols + k)]}) /
                         largest;
      row_error =
          std::isnan(gap) ? std::numeric_limits<double>::infinity() : std::max(row_error, gap);
    }
    tensor.error = std::max(tensor.error, row_error);
    if (row_error > bound) {
      ++tensor.rows_outside;
      report_.outside.push_back({name, i, row_error, off_ || file_.layerwise});
    }
  }
  if (off_) {
    tensor.outcome = VerifyOutcome::passed;
    if (tensor.error > kOffBound) {
      fail(tensor, fmt::format("differs by {:.1e} of its largest value, allowed {:.0e}",
                               tensor.error, kOffBound));
    }
  } else if (file_.layerwise) {
    tensor.outcome = VerifyOutcome::passed;
    if (tensor.error > kRowLimit) {
      fail(tensor, fmt::format("a row differs by {:.2f} of the largest value, allowed {}",
                               tensor.error, kRowLimit));
    }
    report_.rows += picked;
    report_.rows_outside += tensor.rows_outside;
  }
  if (report_.worst_tensor.empty() || tensor.error > report_.worst_error) {
    report_.worst_tensor = name;
    report_.worst_error = tensor.error;
  }
  report_.tensors.push_back(std::move(tensor));
}

/// Whether a choice is clear enough to be judged: its margin against the row's largest score.
bool Judge::ids_judged(const GoldenName& parts, std::int64_t row) const {
  if (off_) return true;
  const auto traced = [&](TraceTensor what) {
    const TracedRows<float>& rows = run_.trace.floats(parts.layer, what);
    return row < rows.rows() ? double{*rows.row(row)} : 0.0;
  };
  if (parts.leaf == "candidates") { // no margin of blocks is stored: the engine's own decides
    return traced(TraceTensor::candidate_margin) >
           kMarginBound * traced(TraceTensor::candidate_scale);
  }
  const bool router = parts.leaf == "router_ids";
  const GoldenTensor* margin = file_.find(
      fmt::format("sim.layers.{}.{}", parts.layer, router ? "router_margin" : "topk_margin"));
  if (margin == nullptr || row >= static_cast<std::int64_t>(margin->floats.size())) return true;
  return double{margin->floats[static_cast<std::size_t>(row)]} >
         kMarginBound * traced(router ? TraceTensor::router_scale : TraceTensor::topk_scale);
}

void Judge::judge_ids(const std::string& name, const GoldenName& parts,
                      const GoldenTensor& stored) {
  VerifyTensor tensor{.name = name};
  const TraceIds kind = parts.leaf == "topk"         ? TraceIds::topk
                        : parts.leaf == "candidates" ? TraceIds::candidates
                                                     : TraceIds::router;
  const TracedRows<std::int32_t>& got = run_.trace.ids(parts.layer, kind);
  tensor.rows = stored.rows();
  if (stored.is_float || got.rows() != stored.rows() || got.cols != stored.cols()) {
    fail(tensor, fmt::format("has shape {}, the engine has {} rows of {}", shape_text(stored.shape),
                             got.rows(), got.cols));
    report_.tensors.push_back(tensor);
    return;
  }
  std::int64_t wrong = 0;
  for (std::int64_t row = 0; row < stored.rows(); ++row) {
    if (std::equal(got.row(row), got.row(row) + got.cols, stored.ints.begin() + row * got.cols)) {
      continue;
    }
    const bool judged = (off_ || file_.layerwise) && ids_judged(parts, row);
    ++tensor.rows_outside;
    wrong += judged ? 1 : 0;
    report_.outside.push_back({name, row, 0.0, judged});
  }
  if (off_ || file_.layerwise) tensor.outcome = VerifyOutcome::passed;
  if (wrong > 0) fail(tensor, fmt::format("integers of {} rows differ", wrong));
  report_.tensors.push_back(std::move(tensor));
}

bool Judge::judge_tensor(const std::string& name, const GoldenName& parts,
                         const GoldenTensor& stored) {
  if (parts.leaf == "topk" || parts.leaf == "candidates" || parts.leaf == "router_ids") {
    judge_ids(name, parts, stored);
    return true;
  }
  const Source source = source_of(parts, stored);
  if (source.rows == nullptr) return false;
  judge_floats(name, stored, source);
  return true;
}

void Judge::judge_greedy() {
  const GoldenTensor* stored = file_.find(report_.quant + ".greedy");
  if (stored == nullptr) return;
  report_.greedy_stored = stored->size();
  report_.greedy_count = stored->size();
  if (const GoldenTensor* agree = file_.find("sim.greedy_agree"); !off_ && agree != nullptr) {
    const std::int64_t robust = agree->ints.empty() ? 0 : agree->ints.front();
    report_.greedy_count = std::clamp<std::int64_t>(robust, 0, stored->size());
  }
  const auto [got, want] = std::mismatch(run_.greedy.begin(), run_.greedy.end(),
                                         stored->ints.begin(), stored->ints.end());
  report_.greedy_equal = want - stored->ints.begin();
  if (report_.greedy_equal < report_.greedy_count) {
    report_.passed = false;
    report_.problems.push_back(
        fmt::format("greedy token {} of {} differs", report_.greedy_equal, report_.greedy_count));
  }
}

VerifyQuant Judge::judge() {
  for (const auto& [name, stored] : file_.tensors) {
    const std::optional<GoldenName> parts = parse_name(name);
    if (!parts || parts->quant != report_.quant || parts->leaf == "greedy" ||
        parts->leaf == "greedy_agree") {
      continue;
    }
    const bool is_unbuilt = of_unbuilt_part(parts->leaf);
    if (!is_unbuilt && !judge_numbers(name, *parts, stored)) continue;
    if (!is_unbuilt && parts->leaf.ends_with("margin")) {
      report_.tensors.push_back({.name = name, .note = "a bound for other tensors"});
      continue;
    }
    if (is_unbuilt || !judge_tensor(name, *parts, stored)) {
      report_.tensors.push_back({.name = name, .outcome = VerifyOutcome::skipped});
      ++report_.skipped;
    }
  }
  judge_greedy();
  if (file_.layerwise && static_cast<double>(report_.rows_outside) >
                             (1.0 - kRowsWithin) * static_cast<double>(report_.rows)) {
    report_.passed = false;
    report_.problems.push_back(fmt::format("{} of {} rows differ by more than {:.0e} of the "
                                           "largest value, allowed {:.0f} %",
                                           report_.rows_outside, report_.rows, kRowBound,
                                           100.0 * (1.0 - kRowsWithin)));
  }
  return std::move(report_);
}

/// The worse of two reports of the same quantisation.
VerifyQuant worse(VerifyQuant a, VerifyQuant b) {
  if (a.passed != b.passed) return a.passed ? std::move(b) : std::move(a);
  return b.worst_error > a.worst_error ? std::move(b) : std::move(a);
}

bool has_quant(const GoldenFile& file, const std::string& quant) {
  const auto it = file.tensors.lower_bound(quant + ".");
  return it != file.tensors.end() && it->first.starts_with(quant + ".");
}

} // namespace

Result<Verifier> Verifier::open(const VerifyOptions& options) {
  EngineOptions engine_options;
  engine_options.model_path = options.model_path;
  Result<std::shared_ptr<const Weights>> weights = load_weights(engine_options);
  if (!weights.ok()) return weights.error();
  Verifier out;
  out.options_ = options;
  out.weights_ = std::move(*weights);
  return out;
}

Result<VerifyFileReport> Verifier::verify_file(const std::string& path) const {
  Result<GoldenFile> file = read_golden(path, weights_->config());
  if (!file.ok()) return file.error();
  VerifyFileReport report;
  report.file = path;
  report.layerwise = file->layerwise;
  if (file->has_image) {
    report.skipped = static_cast<std::int64_t>(file->tensors.size());
    return report;
  }
  for (const std::string quant : {"off", "sim"}) {
    if (!has_quant(*file, quant)) continue;
    const GoldenTensor* greedy = file->find(quant + ".greedy");
    const std::int64_t new_tokens = greedy != nullptr ? greedy->size() : 0;
    std::optional<VerifyQuant> worst;
    for (const std::int64_t chunk :
         quant == "off" ? std::vector<std::int64_t>{0, 1, 7} : std::vector<std::int64_t>{0}) {
      Result<GoldenRun> run = run_golden(weights_, options_, *file, quant, chunk, new_tokens);
      if (!run.ok()) return run.error();
      VerifyQuant judged = Judge(*file, *run, weights_->config(), quant).judge();
      worst = worst ? worse(std::move(*worst), std::move(judged)) : std::move(judged);
    }
    report.quants.push_back(std::move(*worst));
  }
  return report;
}

} // namespace troupe::engine
