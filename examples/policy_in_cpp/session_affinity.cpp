// Cache and session affinity for prefill ranks: go where the conversation and its KV are, unless
// that rank has too much to do.

#include <troupe/troupe_policy.hpp>

namespace {

using namespace troupe::sdk;

constexpr const char* kSchema = R"({"type": "object", "properties": {
  "stay_us": {"type": "integer", "default": 200000, "minimum": 0, "maximum": 1000000000,
    "description": "How much longer than elsewhere a session waits at its home rank, in us.",
    "x-hot": true}}})";

/// Mixes 64 bits, so that sessions spread over ranks.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/// Score of a rank: work ahead, plus the part of the prompt that is not cached there, less
/// `stay_us` at home. The home of a session is the rank with its highest hash, so when a rank comes
/// or goes only the sessions of that rank move.
class SessionAffinity final : public PrefillRouter {
public:
  explicit SessionAffinity(const Options& options)
      : stay_ps_(options.integer("stay_us", 200'000) * 1'000'000) {}

  Verdict route(const Question& question, const Call& call, Choice& choice) override {
    const RequestView& request = question.request;
    const std::size_t home = home_of(request.session_hash, question.ranks);
    const Verdict verdict = choice.lowest(request, [&](const RankView& rank, std::size_t place) {
      const std::int64_t total = troupe_total(&request);
      const std::int64_t hit = std::min(question.local_hit(place), total);
      const std::int64_t wait_ps = add(rank.work_ps, call.marginal_ps(total - hit, hit));
      return place == home ? wait_ps - stay_ps_ : wait_ps;
    });
    const bool went_home = home < question.ranks.size() && verdict.status == TROUPE_DONE &&
                           choice.chosen() == question.ranks[home].rank;
    return went_home ? Verdict::done(TROUPE_REASON_BY_SESSION) : verdict;
  }

private:
  /// Place of the session's rank, or ranks.size() when there is no session.
  static std::size_t home_of(std::uint64_t session, const Ranks& ranks) {
    std::size_t home = ranks.size();
    std::uint64_t highest = 0;
    for (std::size_t i = 0; session != 0 && i < ranks.size(); ++i) {
      const std::uint64_t hash = mixed(session ^ mixed(ranks[i].rank + 1ULL));
      if (home != ranks.size() && hash <= highest) continue;
      home = i;
      highest = hash;
    }
    return home;
  }

  std::int64_t stay_ps_;
};

} // namespace

TROUPE_PLUGIN("policy_in_cpp", "1.0.0", policy<SessionAffinity>("session_affinity", kSchema));
