#include "actors/app/bench_messages.hpp"

#include "actors/messages.hpp"

#include <caf/scoped_actor.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace troupe::app {

namespace {

using Clock = std::chrono::steady_clock;

struct BenchSettings : caf::actor_system_config {
  BenchSettings() {
    add_message_types<caf::id_block::troupe>();
    actors::tune(*this, 2);
  }
};

struct Config {
  std::int64_t hops = 0;
  caf::actor peer;
  caf::actor listener;
};

caf::behavior bare_echo(caf::event_based_actor* self, Config config) {
  return {
      [](std::int32_t x) { return x; },
      [=](std::uint64_t left) {
        if (left == 0) self->send(config.listener, std::int32_t{0});
      },
  };
}

caf::behavior bare_caller(caf::event_based_actor* self, Config config) {
  self->send(config.peer, std::int32_t{0});
  return {[=](std::int32_t x) {
    if (x + 1 == config.hops) {
      self->send(config.listener, x);
      self->quit();
    } else {
      self->send(config.peer, x + 1);
    }
  }};
}

struct None {};

caf::behavior our_echo(caf::stateful_actor<None>* self, Config config) {
  return {
      [](const sched::RankReport& report) {
        return sched::RunChunks{report.rank, report.step_next, {}};
      },
      [=](const sched::Release& last) {
        if (last.reason != ErrorCode::ok) self->send(config.listener, std::int32_t{0});
      },
  };
}

caf::behavior our_caller(caf::stateful_actor<None>* self, Config config) {
  sched::RankReport report;
  report.progress.resize(4);
  self->send(config.peer, report);
  return {[=](const sched::RunChunks& chunks) {
    if (static_cast<std::int64_t>(chunks.step) + 1 == config.hops) {
      self->send(config.listener, std::int32_t{0});
      self->quit();
    } else {
      sched::RankReport next;
      next.step_next = chunks.step + 1;
      next.progress.resize(4);
      self->send(config.peer, std::move(next));
    }
  }};
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void wait(caf::scoped_actor& self) {
  self->receive([](std::int32_t) {}, caf::after(std::chrono::seconds{60}) >> [] {});
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

} // namespace

MessageBench bench_messages(std::int64_t rounds, std::int64_t hops) {
  BenchSettings settings;
  caf::actor_system system(settings);
  caf::scoped_actor self(system);
  const auto me = caf::actor_cast<caf::actor>(self.ptr());
  const auto shared = actors::Threads::shared;
  std::vector<double> bare_hop;
  std::vector<double> our_hop;
  std::vector<double> bare_rate;
  std::vector<double> our_rate;
  for (std::int64_t round = 0; round < rounds; ++round) {
    const caf::actor bare = system.spawn(bare_echo, Config{hops, {}, me});
    const caf::actor ours = actors::spawn_stage(system, shared, our_echo, Config{hops, {}, me});
    auto begin = Clock::now();
    system.spawn(bare_caller, Config{hops, bare, me});
    wait(self);
    bare_hop.push_back(seconds_since(begin) * 1e6 / static_cast<double>(hops));
    begin = Clock::now();
    actors::spawn_stage(system, shared, our_caller, Config{hops, ours, me});
    wait(self);
    our_hop.push_back(seconds_since(begin) * 1e6 / static_cast<double>(hops));
    begin = Clock::now();
    for (auto left = static_cast<std::uint64_t>(hops); left > 0; --left)
      self->send(bare, left - 1);
    wait(self);
    bare_rate.push_back(static_cast<double>(hops) / seconds_since(begin));
    begin = Clock::now();
    for (std::int64_t left = hops; left > 0; --left) {
      self->send(ours, sched::Release{{}, {}, left == 1 ? ErrorCode::cancelled : ErrorCode::ok});
    }
    wait(self);
    our_rate.push_back(static_cast<double>(hops) / seconds_since(begin));
    for (const caf::actor& actor : {bare, ours}) {
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
    }
  }
  return {rounds, hops, median(bare_hop), median(our_hop), median(bare_rate), median(our_rate)};
}

std::string bench_text(const MessageBench& bench) {
  return fmt::format("request and response, awake: {:.2f} us, bare CAF {:.2f} us, ratio {:.2f}\n"
                     "messages/s into one actor: {:.0f}, bare CAF {:.0f}, ratio {:.2f}\n"
                     "(medians of {} rounds of {})\n",
                     bench.our_hop_us, bench.bare_hop_us, bench.hop_ratio(), bench.our_rate,
                     bench.bare_rate, bench.rate_ratio(), bench.rounds, bench.hops);
}

std::string bench_json(const MessageBench& bench) {
  return fmt::format(R"({{"rounds":{},"hops":{},"hop_us":{:.3f},"bare_hop_us":{:.3f},)"
                     R"("hop_ratio":{:.3f},"messages_per_s":{:.0f},"bare_messages_per_s":{:.0f},)"
                     R"("rate_ratio":{:.3f}}})",
                     bench.rounds, bench.hops, bench.our_hop_us, bench.bare_hop_us,
                     bench.hop_ratio(), bench.our_rate, bench.bare_rate, bench.rate_ratio());
}

} // namespace troupe::app
