#include "engine/text/utf8.hpp"

#include "schedulers/core/utf8.hpp"

namespace troupe::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

} // namespace

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!held_.empty()) {
    joined = held_;
    joined += bytes;
    held_.clear();
    bytes = joined;
  }
  std::size_t copied = 0;
  std::size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Front front = utf8_front(bytes.substr(at));
    if (front.kind == Utf8Front::Kind::whole) {
      at += front.bytes;
      continue;
    }
    out.append(bytes.substr(copied, at - copied));
    if (front.kind == Utf8Front::Kind::unfinished) {
      held_ = bytes.substr(at);
      return;
    }
    out.append(kReplacement);
    at += front.bytes;
    copied = at;
  }
  out.append(bytes.substr(copied));
}

void Utf8Stream::flush(std::string& out) {
  if (!held_.empty()) out.append(kReplacement);
  held_.clear();
}

} // namespace troupe::text
