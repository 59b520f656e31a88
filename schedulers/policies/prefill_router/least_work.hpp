// Least queue estimate W after adding the request, own assignments included.

#pragma once

#include "schedulers/policy/prefill_router.hpp"

#include <cstdint>

namespace troupe::sched {

/// Who gets a request among ranks with equal estimates and queues.
enum class RouterTies : std::uint8_t { lowest_id, drawn };

struct LeastWorkOptions {
  /// Default lowest_id. Hot: yes.
  RouterTies ties = RouterTies::lowest_id;
  /// What each token of the prompt that a rank still holds takes off its estimate, up to a
  /// twentieth of it. Unit: ps; 17800 is 890 bytes at 50 GB/s. Default 0 = nothing.
  /// Range 0 to 10^12. Hot: yes.
  std::int64_t affinity_token_ps = 0;
};

/// Argmin of W; ties by fewer queued requests, then by lower rank id or by a draw.
///
/// Source: policies.md section 2.2.
class LeastWorkRouter final : public PrefillRouter {
public:
  explicit LeastWorkRouter(const LeastWorkOptions& options = {}) : options_(options) {}

  Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;

private:
  LeastWorkOptions options_;
};

} // namespace troupe::sched
