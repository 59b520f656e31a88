#include "actors/app/policy_watch.hpp"

#include "actors/app/config_loader.hpp"
#include "actors/app/file_notice.hpp"
#include "actors/app/steady_clock.hpp"
#include "engine/text/text_file.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace troupe::app {

namespace {

constexpr std::int64_t kSliceUs = 50'000; ///< Of a wait for an answer, between looks at the end.

/// Decides when a path may be read: a change that has been still for long enough.
class Settling {
public:
  Settling(const PolicyWatchOptions& options, FileStamp stamp, std::int64_t now_us)
      : options_(options), stamp_(stamp), next_poll_us_(now_us) {}

  /// The path was looked at, because of a notice or because it was time.
  void look(const FileStamp& stamp, bool noticed, std::int64_t now_us) {
    next_poll_us_ = now_us + options_.poll_us;
    if (stamp == stamp_) return; // Most notices are of neighbours.
    stamp_ = stamp;
    is_open_ = true;
    was_patient_ = false;
    // Who changes it without notice can only be seen to be still from one look to the next.
    due_us_ = now_us + (noticed ? options_.settle_us : options_.poll_us);
  }

  bool is_due(std::int64_t now_us) const noexcept { return is_open_ && now_us >= due_us_; }
  bool is_poll_due(std::int64_t now_us) const noexcept { return now_us >= next_poll_us_; }
  void wait_on(std::int64_t now_us) { due_us_ = now_us + options_.settle_us; }
  /// Asks for more stillness, where nobody can say who writes. True once a change.
  bool be_patient(std::int64_t now_us) {
    if (std::exchange(was_patient_, true)) return false;
    due_us_ = now_us + options_.poll_us;
    return true;
  }
  void open(std::int64_t now_us) {
    is_open_ = true;
    wait_on(now_us);
  }
  void close() { is_open_ = false; }
  const FileStamp& stamp() const noexcept { return stamp_; }

  std::int64_t next_us() const noexcept {
    return is_open_ ? std::min(due_us_, next_poll_us_) : next_poll_us_;
  }

private:
  const PolicyWatchOptions& options_;
  FileStamp stamp_;
  bool is_open_ = false; ///< A change waits to be read.
  bool was_patient_ = false;
  std::int64_t due_us_ = 0;
  std::int64_t next_poll_us_;
};

/// What the file said, and what became of it.
class FileReader {
public:
  FileReader(const PolicyWatchOptions& options, ControlDesk& desk, const PolicyParser& parse,
             const std::atomic<bool>& stopping)
      : options_(options), desk_(desk), parse_(parse), stopping_(stopping),
        seen_(options.first_text) {}

  /// Reads a file that is still. False when it moved meanwhile.
  bool read(const FileStamp& stamp) {
    const Result<std::string> text = text::read_text_file(options_.file, kPolicyTextBytesMax);
    if (stamp_of(options_.file) != stamp) return false;
    if (!text.ok()) {
      if (said_ != text.error().message) {
        spdlog::warn("{}; the live policy set stays", text.error().message);
      }
      said_ = text.error().message;
      return true;
    }
    if (seen_ == *text) return true;
    seen_ = *text;
    consider(*text);
    return true;
  }

private:
  void consider(const std::string& text) {
    if (text == desk_.view().live.text) return;
    PolicyOutcome outcome = parse_(text, options_.file);
    if (!outcome.ok()) {
      const std::string errors = error_lines(outcome.errors);
      if (errors != said_) {
        spdlog::warn("the policy file changed and is not taken, the live set stays");
        for (const ConfigError& error : outcome.errors)
          spdlog::warn("{}", error_lines({error}));
      }
      said_ = errors;
      return;
    }
    said_.clear();
    sched::SwapAsked asked;
    asked.set = std::move(outcome.set);
    asked.cause = sched::SwapCause::file;
    asked.reason = "the file changed";
    ControlDesk::Ended ended = desk_.ask(std::move(asked));
    // The manager says in the log how it ended. Here it is waited for, so that changes that come
    // meanwhile become one.
    const std::int64_t due_us = steady_us() + options_.answer_us;
    while (!stopping_ && steady_us() < due_us) {
      if (ended.wait_for(std::chrono::microseconds{kSliceUs}) == std::future_status::ready) break;
    }
  }

  const PolicyWatchOptions& options_;
  ControlDesk& desk_;
  const PolicyParser& parse_;
  const std::atomic<bool>& stopping_;
  std::string seen_; ///< Last text of the file: the same one again is no change.
  std::string said_; ///< Last complaint, so that it is made once.
};

} // namespace

PolicyWatch::PolicyWatch(PolicyWatchOptions options, std::shared_ptr<ControlDesk> desk,
                         PolicyParser parse)
    : options_(std::move(options)), desk_(std::move(desk)), parse_(std::move(parse)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { watch(); }) {}

PolicyWatch::~PolicyWatch() {
  stopping_ = true;
  const std::uint64_t one = 1;
  static_cast<void>(::write(wake_, &one, sizeof(one)));
  thread_.join();
  ::close(wake_);
}

void PolicyWatch::watch() {
  FileNotice notice(options_.file);
  FileReader reader(options_, *desk_, parse_, stopping_);
  std::int64_t now_us = steady_us();
  Settling settling(options_, stamp_of(options_.file), now_us);
  settling.open(now_us); // It may have changed since the system read it.
  std::int64_t held_since_us = 0;
  bool told_held = false;
  while (!stopping_) {
    const std::int64_t wait_us =
        std::clamp<std::int64_t>(settling.next_us() - now_us, 1000, options_.poll_us);
    pollfd watched[2] = {{wake_, POLLIN, 0}, {notice.descriptor(), POLLIN, 0}};
    ::poll(watched, 2, static_cast<int>(wait_us / 1000));
    now_us = steady_us();
    const bool noticed = notice.take();
    if (noticed || settling.is_poll_due(now_us)) {
      notice.follow();
      settling.look(stamp_of(options_.file), noticed, now_us);
    }
    if (!settling.is_due(now_us)) continue;
    const std::optional<bool> written = is_being_written(options_.file);
    if (!written && settling.be_patient(now_us)) continue;
    if (written.value_or(false)) {
      settling.wait_on(now_us);
      if (held_since_us == 0) held_since_us = now_us;
      if (now_us - held_since_us > options_.held_us && !std::exchange(told_held, true)) {
        spdlog::warn("{}: it changed, but a process has it open for writing; it is read when that "
                     "process closes it",
                     options_.file);
      }
      continue;
    }
    held_since_us = 0;
    told_held = false;
    if (reader.read(settling.stamp())) {
      settling.close();
    } else {
      settling.look(stamp_of(options_.file), true, now_us);
    }
  }
}

} // namespace troupe::app
