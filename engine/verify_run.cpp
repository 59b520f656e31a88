#include "engine/verify_run.hpp"

#include "engine/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <sys/stat.h>

namespace troupe::engine {

namespace {

template <class T>
void keep_rows(TracedRows<T>& to, std::int64_t first, std::int64_t rows, std::int64_t cols,
               const T* data) {
  to.cols = cols;
  const auto end = static_cast<std::size_t>((first + rows) * cols);
  if (to.data.size() < end) to.data.resize(end);
  std::copy_n(data, rows * cols, to.data.begin() + first * cols);
}

Error mismatch(const std::string& path, const std::string& what) {
  return {ErrorCode::mismatch,
          fmt::format("{}: {}; expected a golden file of this model", path, what)};
}

Result<GoldenTensor> read_tensor(const std::string& path, const Checkpoint& file,
                                 const TensorInfo& info) {
  Result<TensorView> view = file.find(info.name);
  if (!view.ok()) return view.error();
  GoldenTensor out;
  out.shape.assign(view->shape.begin(), view->shape.end());
  if (view->dtype == DType::f32) {
    out.floats.resize(view->bytes.size() / 4);
    std::memcpy(out.floats.data(), view->bytes.data(), view->bytes.size());
  } else if (view->dtype == DType::i32) {
    out.is_float = false;
    out.ints.resize(view->bytes.size() / 4);
    std::memcpy(out.ints.data(), view->bytes.data(), view->bytes.size());
  } else {
    return mismatch(path, fmt::format("tensor {} has dtype {}, not F32 or I32", info.name,
                                      dtype_name(view->dtype)));
  }
  return out;
}

Status check_ids(const std::string& path, const char* name, const std::vector<std::int32_t>& ids,
                 std::int64_t end) {
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= end) {
      return mismatch(path, fmt::format("{} holds {}, not in [0, {})", name, id, end));
    }
  }
  return {};
}

/// Layer inputs that a layer-wise file must have in full before anything is fed.
Status check_feed(const std::string& path, const GoldenFile& file, const ModelConfig& config) {
  const auto tokens = static_cast<std::int64_t>(file.prompt.size());
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::pair<std::string, std::int64_t> needed[] = {
        {fmt::format("sim.layers.{}.streams", layer), tokens * config.hc_streams * config.hidden},
        {fmt::format("sim.layers.{}.mix", layer), tokens * config.hc_streams}};
    for (const auto& [name, size] : needed) {
      const GoldenTensor* tensor = file.find(name);
      if (tensor == nullptr || !tensor->is_float || tensor->size() != size) {
        return mismatch(path,
                        fmt::format("tensor {} is missing or does not have {} values", name, size));
      }
    }
  }
  return {};
}

} // namespace

Result<GoldenFile> read_golden(const std::string& path, const ModelConfig& config) {
  // A checkpoint may be a folder of shards, a golden file may not.
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
    return Error{ErrorCode::not_found, path + ": is not there, expected a golden file; name one, "
                                              "or a folder that holds some"};
  }
  if (S_ISDIR(facts.st_mode)) {
    return Error{ErrorCode::io_error, path +
                                          ": is a folder, expected a golden file; name the files "
                                          "in it"};
  }
  Result<Checkpoint> checkpoint = Checkpoint::open(path);
  if (!checkpoint.ok()) return checkpoint.error();
  GoldenFile file;
  for (const TensorInfo& info : checkpoint->tensors()) {
    Result<GoldenTensor> tensor = read_tensor(path, *checkpoint, info);
    if (!tensor.ok()) return tensor.error();
    file.tensors.emplace(info.name, std::move(*tensor));
  }
  const GoldenTensor* prompt = file.find("input_ids");
  if (prompt == nullptr || prompt->ints.empty()) {
    return mismatch(path, "tensor input_ids is missing or empty");
  }
  file.prompt = prompt->ints;
  const auto tokens = static_cast<std::int64_t>(file.prompt.size());
  if (tokens > config.context_max) {
    return mismatch(path, fmt::format("the prompt has {} tokens, the model takes {}", tokens,
                                      config.context_max));
  }
  if (Status s = check_ids(path, "input_ids", file.prompt, config.vocab); !s.ok()) return s.error();
  file.has_image = file.find("image_patches") != nullptr;
  const GoldenTensor* rows = file.find("trace_rows");
  file.layerwise = rows == nullptr;
  if (file.layerwise) {
    if (Status s = check_feed(path, file, config); !s.ok()) return s.error();
  } else {
    file.trace_rows = rows->ints;
    if (Status s = check_ids(path, "trace_rows", file.trace_rows, tokens); !s.ok()) {
      return s.error();
    }
  }
  return file;
}

void TraceStore::layer_input(std::int64_t layer, std::int64_t first_position, std::int64_t rows,
                             float* streams, float* mix) {
  if (feed_ == nullptr || layer == 0) return;
  const std::string prefix = fmt::format("sim.layers.{}.", layer - 1);
  const auto feed = [&](const std::string& name, float* to) {
    const GoldenTensor& tensor = *feed_->find(prefix + name);
    std::copy_n(tensor.floats.begin() + first_position * tensor.cols(), rows * tensor.cols(), to);
  };
  feed("streams", streams);
  feed("mix", mix);
}

void TraceStore::put(std::int64_t layer, TraceTensor what, std::int64_t first, std::int64_t rows,
                     std::int64_t cols, const float* data) {
  keep_rows(floats_[{layer, what}], first, rows, cols, data);
}

void TraceStore::put_ids(std::int64_t layer, TraceIds what, std::int64_t first, std::int64_t rows,
                         std::int64_t cols, const std::int32_t* data) {
  keep_rows(ids_[{layer, what}], first, rows, cols, data);
}

const TracedRows<float>& TraceStore::floats(std::int64_t layer, TraceTensor what) const {
  static const TracedRows<float> kEmpty;
  const auto it = floats_.find({layer, what});
  return it == floats_.end() ? kEmpty : it->second;
}

const TracedRows<std::int32_t>& TraceStore::ids(std::int64_t layer, TraceIds what) const {
  static const TracedRows<std::int32_t> kEmpty;
  const auto it = ids_.find({layer, what});
  return it == ids_.end() ? kEmpty : it->second;
}

namespace {

/// A plan for one sequence in slot 0 with all its blocks, greedy where a token is wanted.
StepPlan plan_of(std::span<const std::int32_t> tokens, std::int64_t first, std::int64_t blocks,
                 bool sample) {
  StepPlan plan;
  plan.state_slot = {StateSlotId{0}};
  plan.first_position = {first};
  plan.tokens.assign(tokens.begin(), tokens.end());
  plan.tokens_of = {{0, static_cast<std::int32_t>(tokens.size())}};
  plan.blocks_of = {{0, static_cast<std::int32_t>(blocks)}};
  for (std::int64_t b = 0; b < blocks; ++b) {
    plan.block_table.push_back(static_cast<KvBlockId>(b));
  }
  plan.logits = {sample ? Logits::last : Logits::none};
  plan.sampling_of = {sample ? 0 : -1};
  if (sample) plan.sampling = {SamplingPlan{.temperature = 0.0F}};
  return plan;
}

} // namespace

Result<GoldenRun> run_golden(std::shared_ptr<const Weights> weights, const VerifyOptions& options,
                             const GoldenFile& file, const std::string& quant, std::int64_t chunk,
                             std::int64_t new_tokens) {
  const ModelConfig& config = weights->config();
  const auto prompt = static_cast<std::int64_t>(file.prompt.size());
  const std::int64_t positions = std::min(prompt + new_tokens, config.context_max);
  EngineOptions engine_options;
  engine_options.cpu_path = options.cpu_path;
  engine_options.threads = options.threads;
  engine_options.activation_quant = quant == "off" ? "off" : "checkpoint";
  engine_options.sequences_max = 1;
  engine_options.step_tokens_max = prompt;
  const KvFormat format = quant == "off" ? KvFormat::f32 : KvFormat::packed;
  Result<KvLayout> layout = make_kv_layout(config, format, engine_options.block_tokens);
  if (!layout.ok()) return layout.error();
  const std::int64_t blocks = blocks_for(positions, layout->block_tokens);
  engine_options.kv_memory_bytes = layout->slot_bytes + blocks * layout->block_bytes;
  Result<std::unique_ptr<CpuEngine>> engine = CpuEngine::open(weights, engine_options);
  if (!engine.ok()) return engine.error();

  GoldenRun run{TraceStore(file.layerwise ? &file : nullptr), {}};
  (*engine)->set_trace(&run.trace);
  const std::int64_t step_tokens = chunk == 0 ? prompt : chunk;
  const std::span<const std::int32_t> all(file.prompt);
  for (std::int64_t first = 0; first < prompt; first += step_tokens) {
    const std::int64_t count = std::min(step_tokens, prompt - first);
    const bool last = first + count == prompt;
    Result<StepResult> result = (*engine)->step(
        plan_of(all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
                first, blocks, last && new_tokens > 0));
    if (!result.ok()) return result.error();
    if (last && new_tokens > 0) run.greedy.push_back(result->sampled[0]);
  }
  (*engine)->set_trace(nullptr);
  for (std::int64_t p = prompt; p < positions - 1 && run.greedy.back() >= 0; ++p) {
    const std::int32_t token = run.greedy.back();
    Result<StepResult> result = (*engine)->step(plan_of({&token, 1}, p, blocks, true));
    if (!result.ok()) return result.error();
    run.greedy.push_back(result->sampled[0]);
  }
  return run;
}

} // namespace troupe::engine
