// Compares the engine with golden files: what an independent reference computed for some prompts.
//
// Two kinds of file. Case files hold intermediate tensors and a greedy continuation, without
// ("off") and with ("sim") simulated quantisation. Layer-wise files hold every row of every layer
// with it, so that each layer can be fed the stored output of the one before and flips do not pile
// up.

#pragma once

#include "engine/engine.hpp"
#include "schedulers/core/result.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe::engine {

struct VerifyOptions {
  std::string model_path;
  std::string cpu_path = "auto"; ///< As EngineOptions.
  int threads = 1;
};

/// How one tensor of a golden file came out.
enum class VerifyOutcome : std::uint8_t {
  passed,
  failed,
  shown,   ///< Compared, but no rule judges it (sim of case files, margins).
  skipped, ///< Of a part that is not built.
};

struct VerifyTensor {
  std::string name; ///< As in the file.
  VerifyOutcome outcome = VerifyOutcome::shown;
  double error = 0.0; ///< Largest difference over the largest stored value; floats only.
  std::int64_t rows = 0;
  std::int64_t rows_outside = 0; ///< Rows of floats beyond the bound, rows of integers not equal.
  std::string note;              ///< What a person should know; may be empty.
};

/// A row beyond the bound, or integers that differ.
struct VerifyRow {
  std::string tensor;
  std::int64_t row = 0;
  double error = 0.0; ///< Floats; 0 for integers.
  bool judged = true; ///< False for integers within the stored margin.
};

/// One file under one quantisation.
struct VerifyQuant {
  std::string quant; ///< "off" or "sim".
  bool passed = true;
  std::string worst_tensor;      ///< Of the floats; empty when there are none.
  double worst_error = 0.0;      ///< Relative, as VerifyTensor::error.
  std::int64_t greedy_equal = 0; ///< Leading greedy tokens that are equal ...
  std::int64_t greedy_count = 0; ///< ... of those that are judged: all in off, greedy_agree in sim.
  std::int64_t greedy_stored = 0;
  std::int64_t skipped = 0; ///< Tensors of parts that are not built.
  std::int64_t rows = 0;    ///< Float rows; layer-wise files only.
  std::int64_t rows_outside = 0;
  std::vector<VerifyTensor> tensors;
  std::vector<VerifyRow> outside;
  std::vector<std::string> problems; ///< Why it failed, one sentence each.
};

struct VerifyFileReport {
  std::string file;
  bool layerwise = false;
  std::int64_t skipped = 0;        ///< All tensors, when the whole file needs a part not built.
  std::vector<VerifyQuant> quants; ///< Empty for a skipped file.

  bool passed() const {
    for (const VerifyQuant& quant : quants) {
      if (!quant.passed) return false;
    }
    return true;
  }
};

/// Verifies files against one checkpoint; its weights are loaded once.
///
/// Off: every float tensor within 5e-5 of its largest value, every integer equal, with the prompt
/// as a whole and in chunks of 1 and 7. Sim, case files: the first greedy_agree tokens equal. Sim,
/// layer-wise: 94 % of the rows within 1e-4 of the tensor's largest value, none above 0.15,
/// integers equal wherever the stored margin exceeds 1e-4 of the row's largest score.
class Verifier {
public:
  static Result<Verifier> open(const VerifyOptions& options);

  /// Errors: of reading; mismatch when the file is no golden file of this model.
  Result<VerifyFileReport> verify_file(const std::string& path) const;

private:
  VerifyOptions options_;
  std::shared_ptr<const Weights> weights_;
};

} // namespace troupe::engine
