#include "actors/app/control_client.hpp"

#include "actors/app/control_path.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kAnswerBytesMax = 64 << 20;
constexpr int kEntriesMax = 10'000; ///< Of the working directory that are looked at.

constexpr const char* kHowToFind =
    "`troupe batch` prints the path of its control socket at the start (OUTPUT.sock, as in "
    "results.jsonl.sock); pass it with --connect SOCKET";

/// Sockets of the working directory that somebody listens at.
std::vector<std::string> live_sockets() {
  std::vector<std::string> out;
  std::error_code error;
  int entries = 0;
  for (auto at = fs::directory_iterator(".", error); at != fs::directory_iterator();
       at.increment(error)) {
    if (error || ++entries > kEntriesMax) break;
    const fs::path path = at->path().lexically_normal();
    if (path.extension() != ".sock" || !fs::is_socket(at->symlink_status(error))) continue;
    const int socket = connect_control(path.string());
    if (socket < 0) continue;
    ::close(socket);
    out.push_back(path.string());
  }
  return out;
}

Result<std::string> find_socket(const std::string& given) {
  if (!given.empty()) return control_path(given);
  const std::vector<std::string> found = live_sockets();
  if (found.size() == 1) return control_path(found.front());
  std::string message = found.empty()
                            ? "no running system was found in the working directory; "
                            : "several running systems were found in the working directory:";
  for (const std::string& path : found)
    message += " " + path;
  return Error{ErrorCode::not_found, message + (found.empty() ? "" : "; ") + kHowToFind};
}

/// Waits until the socket is ready for `events`; false when the time is over.
bool wait_for(int socket, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd watched{socket, events, 0};
    const int seen = ::poll(&watched, 1, static_cast<int>(left));
    if (seen > 0) return true;
    if (seen < 0 && errno != EINTR) return false;
  }
}

} // namespace

Result<ControlClient> ControlClient::connect(const std::string& socket) {
  auto path = find_socket(socket);
  if (!path.ok()) return path.error();
  ControlClient out;
  out.path_ = *path;
  std::error_code code;
  const fs::file_status status = fs::status(*path, code);
  if (fs::exists(status) && !fs::is_socket(status)) {
    return Error{ErrorCode::not_found,
                 (socket.empty() ? *path : socket) + ": it is no socket; " + kHowToFind};
  }
  out.socket_ = connect_control(*path);
  if (out.socket_ >= 0) return Result<ControlClient>(std::move(out));
  const bool is_dead = errno == ECONNREFUSED;
  return Error{ErrorCode::not_found,
               (socket.empty() ? *path : socket) + ": no running system answers there (" +
                   (is_dead ? "the process that made the socket has ended" : std::strerror(errno)) +
                   "); " + kHowToFind};
}

ControlClient::ControlClient(ControlClient&& other) noexcept
    : path_(std::move(other.path_)), socket_(std::exchange(other.socket_, -1)),
      received_(std::move(other.received_)) {}

ControlClient::~ControlClient() {
  if (socket_ >= 0) ::close(socket_);
}

Result<std::string> ControlClient::ask(std::string_view line, std::chrono::milliseconds longest) {
  const auto deadline = Clock::now() + longest;
  const Error ended{ErrorCode::io_error, path_ + ": the running system has ended"};
  const Error late{ErrorCode::io_error,
                   path_ + ": the running system did not answer within " +
                       std::to_string(longest.count() / 1000) +
                       " s; is it stopped (Ctrl-Z, SIGSTOP) or its machine overloaded? What it was "
                       "asked for it may still do"};
  std::string out = std::string(line) + "\n";
  while (!out.empty()) {
    if (!wait_for(socket_, POLLOUT, deadline)) return late;
    const ssize_t sent = ::send(socket_, out.data(), out.size(), MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (sent <= 0) break; // Why may stand in what it said before it closed.
    out.erase(0, static_cast<std::size_t>(sent));
  }
  for (;;) {
    const std::size_t end = received_.find('\n');
    if (end != std::string::npos) {
      std::string answer = received_.substr(0, end);
      received_.erase(0, end + 1);
      return answer;
    }
    if (received_.size() > kAnswerBytesMax || !wait_for(socket_, POLLIN, deadline)) return late;
    std::array<char, 65536> piece{};
    const ssize_t got = ::recv(socket_, piece.data(), piece.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return ended;
    received_.append(piece.data(), static_cast<std::size_t>(got));
  }
}

} // namespace troupe::app
