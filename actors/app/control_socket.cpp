#include "actors/app/control_socket.hpp"

#include "actors/app/steady_clock.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace troupe::app {

namespace {

constexpr int kWaitMs = 500;                       ///< Between looks at the clock.
constexpr int kWaitAnswerMs = 10;                  ///< While an answer is on its way.
constexpr int kAcceptsMax = 16;                    ///< At once, before clients are served.
constexpr std::int64_t kAcceptPauseUs = 1'000'000; ///< After the system had no descriptor left.

/// One connection: a line in, a line out, in order.
class Client {
public:
  Client(int socket, const ControlSocketOptions& options, std::int64_t now_us)
      : socket_(socket), options_(options), idle_since_us_(now_us) {}
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  int descriptor() const noexcept { return socket_; }
  bool is_over() const noexcept { return over_; }
  bool waits_for_answer() const noexcept { return static_cast<bool>(reply_); }

  /// What to wait for. Nothing is read before the last answer is gone.
  short events() const noexcept {
    if (!to_send_.empty()) return POLLOUT;
    return reply_ || is_last_ ? short{0} : short{POLLIN};
  }

  void handle(short seen, ControlRequests& requests, std::int64_t now_us) {
    // With an answer on its way, a hang-up means that nobody is there to take it.
    const bool gone = (seen & POLLHUP) != 0 && events() != POLLIN;
    if (gone || (seen & (POLLERR | POLLNVAL)) != 0) over_ = true;
    if ((seen & (POLLIN | POLLHUP)) != 0 && events() == POLLIN) receive(now_us);
    // Only when there is room: the kernel takes some more, and a client that reads nothing would
    // seem to take its answers.
    if ((seen & POLLOUT) != 0 && !to_send_.empty()) send(now_us);
    advance(requests, now_us);
    check_times(now_us);
  }

private:
  void receive(std::int64_t now_us) {
    std::array<char, 65536> piece{};
    const ssize_t got = ::recv(socket_, piece.data(), piece.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      is_closed_ = true;
      return;
    }
    received_.erase(0, taken_);
    taken_ = 0;
    if (received_.empty()) line_since_us_ = now_us;
    received_.append(piece.data(), static_cast<std::size_t>(got));
  }

  /// Takes lines and answers as far as it goes without waiting.
  void advance(ControlRequests& requests, std::int64_t now_us) {
    while (!over_ && to_send_.empty()) {
      if (reply_) {
        const std::optional<std::string> answer = reply_(now_us);
        if (!answer) return;
        say(*answer, now_us);
        reply_ = {};
        return;
      }
      if (is_last_ || !take_line(requests, now_us)) break;
    }
    // The other side may close its half behind its last request.
    if (to_send_.empty() && !reply_ && (is_last_ || is_closed_)) over_ = true;
  }

  /// False when no whole line is there.
  bool take_line(ControlRequests& requests, std::int64_t now_us) {
    const std::size_t end = received_.find('\n', taken_);
    if (std::min(end, received_.size()) - taken_ > options_.line_bytes_max) {
      say(control_error("too_long",
                        fmt::format("found a line of more than {} bytes, expected at most that",
                                    options_.line_bytes_max)),
          now_us);
      is_last_ = true;
      received_.clear();
      taken_ = 0;
      return true;
    }
    if (end == std::string::npos) return false;
    const std::string line = received_.substr(taken_, end - taken_);
    taken_ = end + 1;
    line_since_us_ = now_us;
    if (line.find_first_not_of(" \t\r") == std::string::npos) return true;
    idle_since_us_ = now_us;
    reply_ = requests.take(line);
    return true;
  }

  void say(const std::string& line, std::int64_t now_us) {
    to_send_ = line + "\n";
    idle_since_us_ = answer_since_us_ = now_us;
  }

  void send(std::int64_t now_us) {
    const ssize_t sent = ::send(socket_, to_send_.data(), to_send_.size(), MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (sent <= 0) {
      over_ = true;
      return;
    }
    to_send_.erase(0, static_cast<std::size_t>(sent));
    idle_since_us_ = now_us;
  }

  void check_times(std::int64_t now_us) {
    if (!to_send_.empty()) {
      over_ = over_ || now_us - answer_since_us_ > options_.answer_us_max;
    } else if (!reply_ && taken_ < received_.size()) {
      over_ = over_ || now_us - line_since_us_ > options_.line_us_max;
    } else if (!reply_) {
      over_ = over_ || now_us - idle_since_us_ > options_.idle_us_max;
    }
  }

  int socket_;
  const ControlSocketOptions& options_;
  std::string received_;   ///< Bounded, because reading stops while it holds a line.
  std::size_t taken_ = 0;  ///< Of it, as lines.
  std::string to_send_;    ///< Rest of the answer.
  ControlReply reply_;     ///< Empty: no request is open.
  bool is_closed_ = false; ///< The other side sends no more.
  bool is_last_ = false;   ///< Nothing more is read.
  bool over_ = false;
  std::int64_t line_since_us_ = 0;
  std::int64_t answer_since_us_ = 0;
  std::int64_t idle_since_us_;
};

/// Takes new connections; those above the bound hear why they are closed. False when the system has
/// none to give now.
bool accept_clients(int listener, std::list<Client>& clients, const ControlSocketOptions& options,
                    std::int64_t now_us) {
  for (int i = 0; i < kAcceptsMax; ++i) {
    const int made = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (made < 0) return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    if (clients.size() < options.clients_max) {
      clients.emplace_back(made, options, now_us);
      continue;
    }
    const std::string line =
        control_error("busy", fmt::format("{} clients are connected already; try again later",
                                          options.clients_max)) +
        "\n";
    static_cast<void>(::send(made, line.data(), line.size(), MSG_NOSIGNAL));
    ::close(made);
  }
  return true;
}

} // namespace

ControlSocket::ControlSocket(ControlListener listener, ControlRequests requests,
                             ControlSocketOptions options)
    : listener_(std::move(listener)), requests_(std::move(requests)), options_(options),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { serve(); }) {}

ControlSocket::~ControlSocket() {
  stopping_ = true;
  const std::uint64_t one = 1;
  static_cast<void>(::write(wake_, &one, sizeof(one)));
  thread_.join();
  ::close(wake_);
}

void ControlSocket::serve() {
  std::list<Client> clients;
  std::vector<pollfd> watched;
  std::int64_t accept_from_us = 0;
  while (!stopping_) {
    const bool accepts = steady_us() >= accept_from_us;
    watched = {{wake_, POLLIN, 0}, {accepts ? listener_.descriptor() : -1, POLLIN, 0}};
    bool waits = false;
    for (const Client& client : clients) {
      watched.push_back({client.descriptor(), client.events(), 0});
      waits = waits || client.waits_for_answer();
    }
    const int seen = ::poll(watched.data(), watched.size(), waits ? kWaitAnswerMs : kWaitMs);
    if (seen < 0 && errno != EINTR) {
      spdlog::warn("{}: the control socket ends: poll failed ({})", path(), errno);
      return;
    }
    if (seen < 0) continue;
    const std::int64_t now_us = steady_us();
    std::size_t at = 2;
    for (Client& client : clients)
      client.handle(watched[at++].revents, requests_, now_us);
    clients.remove_if([](const Client& client) { return client.is_over(); });
    if (watched[1].revents == 0) continue;
    if (!accept_clients(listener_.descriptor(), clients, options_, now_us)) {
      accept_from_us = now_us + kAcceptPauseUs;
    }
  }
}

} // namespace troupe::app
