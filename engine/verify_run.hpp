// Runs the engine on the prompt of a golden file and keeps what its trace shows.

#pragma once

#include "engine/cpu_engine.hpp"
#include "engine/model/safetensors.hpp"
#include "engine/model/trace.hpp"
#include "engine/verify.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::engine {

/// A golden tensor as numbers.
struct GoldenTensor {
  bool is_float = true;
  std::vector<std::int64_t> shape;
  std::vector<float> floats;
  std::vector<std::int32_t> ints;

  std::int64_t rows() const { return shape.empty() ? 0 : shape.front(); }
  std::int64_t size() const {
    return static_cast<std::int64_t>(is_float ? floats.size() : ints.size());
  }
  std::int64_t cols() const { return rows() == 0 ? 0 : size() / rows(); }
};

/// A golden file read whole.
struct GoldenFile {
  std::map<std::string, GoldenTensor, std::less<>> tensors;
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> trace_rows; ///< Empty in layer-wise files.
  bool layerwise = false;
  bool has_image = false;

  const GoldenTensor* find(std::string_view name) const {
    const auto it = tensors.find(name);
    return it == tensors.end() ? nullptr : &it->second;
  }
};

/// Errors: of the reader; mismatch when something every golden file has is missing or impossible.
Result<GoldenFile> read_golden(const std::string& path, const ModelConfig& config);

/// Rows by position (or group); rows never written are absent.
template <class T>
struct TracedRows {
  std::int64_t cols = 0;
  std::vector<T> data;
  std::int64_t rows() const {
    return cols == 0 ? 0 : static_cast<std::int64_t>(data.size()) / cols;
  }
  const T* row(std::int64_t i) const { return data.data() + i * cols; }
};

/// Keeps everything of one sequence, by layer and kind.
class TraceStore final : public Trace {
public:
  /// With a file, each layer is fed the stored output of the one before.
  explicit TraceStore(const GoldenFile* feed) : feed_(feed) {}

  void layer_input(std::int64_t layer, std::int64_t first_position, std::int64_t rows,
                   float* streams, float* mix) override;
  void put(std::int64_t layer, TraceTensor what, std::int64_t first, std::int64_t rows,
           std::int64_t cols, const float* data) override;
  void put_ids(std::int64_t layer, TraceIds what, std::int64_t first, std::int64_t rows,
               std::int64_t cols, const std::int32_t* data) override;

  const TracedRows<float>& floats(std::int64_t layer, TraceTensor what) const;
  const TracedRows<std::int32_t>& ids(std::int64_t layer, TraceIds what) const;

private:
  const GoldenFile* feed_;
  std::map<std::pair<std::int64_t, TraceTensor>, TracedRows<float>> floats_;
  std::map<std::pair<std::int64_t, TraceIds>, TracedRows<std::int32_t>> ids_;
};

/// What one run of a prompt gave.
struct GoldenRun {
  TraceStore trace;
  std::vector<std::int32_t> greedy;
};

/// Prefills in chunks of `chunk` tokens (0 = whole), then decodes greedily to `new_tokens` tokens.
Result<GoldenRun> run_golden(std::shared_ptr<const Weights> weights, const VerifyOptions& options,
                             const GoldenFile& file, const std::string& quant, std::int64_t chunk,
                             std::int64_t new_tokens);

} // namespace troupe::engine
