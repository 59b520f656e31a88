// Goal: a job on standard input gives the answers of the same job on a file, once.
// Method: the executable reads pipes that are written at once, slowly, and torn off.

#include "tests/support/batch_folder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace troupe::test {
namespace {

/// Two ends of a pipe; the end that is read belongs to the process.
class Pipe {
public:
  Pipe() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    from_ = ends[0];
    to_ = ends[1];
  }
  ~Pipe() {
    close_writer();
    ::close(from_);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int reader() const { return from_; }
  void write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t got = ::write(to_, bytes.data(), bytes.size());
      ASSERT_GT(got, 0);
      bytes.remove_prefix(static_cast<std::size_t>(got));
    }
  }
  void close_writer() {
    if (to_ >= 0) ::close(to_);
    to_ = -1;
  }

private:
  int from_ = -1;
  int to_ = -1;
};

constexpr std::int64_t kLines = 300;

void prepare(BatchFolder& job) {
  job.use_null_device();
  job.input = "-";
}

JobAnswers from_a_file(const std::string& text) {
  BatchFolder job;
  job.use_null_device();
  job.write_input(text);
  const ProcessEnd end = job.run();
  EXPECT_TRUE(end.code == 0 || end.code == 3) << end.err;
  return job.answers();
}

/// Runs with `pieces` written one after the other, `pause` apart.
ProcessEnd run_pieces(const BatchFolder& job, const std::vector<std::string>& pieces,
                      std::chrono::milliseconds pause, const std::vector<std::string>& more = {}) {
  Pipe pipe;
  ProcessOptions options = job.command(more);
  options.standard_input = pipe.reader();
  TroupeProcess process(options);
  for (const std::string& piece : pieces) {
    pipe.write(piece);
    std::this_thread::sleep_for(pause);
  }
  pipe.close_writer();
  return process.wait();
}

TEST(Stream, GivesTheAnswersOfAFile) {
  const std::string text = BatchFolder::completions(kLines);
  for (const char* order : {"completion", "input"}) {
    BatchFolder job;
    prepare(job);
    const ProcessEnd end = run_pieces(job, {text}, {}, {"--order", order});
    EXPECT_EQ(end.code, 0) << end.err;
    EXPECT_FALSE(job.files.has("out.jsonl.journal"));
    EXPECT_TRUE(job.answers().is_exact());
    EXPECT_EQ(job.answers().lines, kLines);
    EXPECT_EQ(from_a_file(text).lines, kLines);
  }
}

TEST(Stream, WaitsForASlowWriter) {
  const std::string text = BatchFolder::completions(4);
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < text.size(); at += 37)
    pieces.push_back(text.substr(at, 37));
  BatchFolder job;
  prepare(job);
  const ProcessEnd end = run_pieces(job, pieces, std::chrono::milliseconds{70});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(job.answers().output.size(), 4U);
  EXPECT_TRUE(job.answers().is_exact());
}

TEST(Stream, ALineThatIsTornOffIsAnErrorLine) {
  const std::string text = BatchFolder::completions(3);
  BatchFolder job;
  prepare(job);
  const ProcessEnd end = run_pieces(job, {text.substr(0, text.size() - 20)}, {});
  EXPECT_EQ(end.code, 3) << end.err;
  EXPECT_EQ(job.answers().output.size(), 2U);
  EXPECT_EQ(job.answers().errors.size(), 1U);
  EXPECT_EQ(job.answers().lines, 3);
}

TEST(Stream, NothingComesIsAnEmptyJob) {
  BatchFolder job;
  prepare(job);
  EXPECT_EQ(job.run().code, 0);
  EXPECT_EQ(job.answers().lines, 0);
}

TEST(Stream, CannotGoOn) {
  BatchFolder job;
  prepare(job);
  EXPECT_EQ(run_pieces(job, {BatchFolder::completions(5)}, {}).code, 0);
  const std::string before = job.files.read("out.jsonl");
  const ProcessEnd again = run_pieces(job, {""}, {});
  EXPECT_EQ(again.code, 2) << again.err;
  EXPECT_NE(again.err.find("out.jsonl: it is not empty, and a job on standard input cannot go on"),
            std::string::npos)
      << again.err;
  EXPECT_EQ(job.files.read("out.jsonl"), before);
  EXPECT_EQ(run_pieces(job, {BatchFolder::completions(7)}, {}, {"--restart"}).code, 0);
  EXPECT_EQ(job.answers().lines, 7);
}

TEST(Stream, CtrlCEndsAJobThatWaitsForInput) {
  Pipe pipe;
  BatchFolder job;
  prepare(job);
  ProcessOptions options = job.command();
  options.standard_input = pipe.reader();
  TroupeProcess process(options);
  pipe.write(BatchFolder::completions(5));
  while (app::lines_of(job.files.read("out.jsonl")).size() < 5 && process.is_running())
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  process.signal(SIGINT);
  const ProcessEnd end = process.wait();
  EXPECT_EQ(end.code, 130) << end.err;
  EXPECT_EQ(job.answers().lines, 5);
  EXPECT_EQ(end.err.find("the same command goes on"), std::string::npos)
      << "standard input cannot be read again: " << end.err;
}

TEST(Stream, ANamedPipeIsReadAsStandardInputOnly) {
  BatchFolder job;
  job.use_null_device();
  const std::string path = job.files.path("fifo");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  job.input = "fifo";
  const ProcessEnd refused = job.run();
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("fifo: the input is no regular file; give a file, or - for standard "
                             "input"),
            std::string::npos)
      << refused.err;
  job.input = "-";
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const int writer = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(writer, 0);
  ::fcntl(reader, F_SETFL, 0);
  ProcessOptions options = job.command();
  options.standard_input = reader;
  TroupeProcess process(options);
  const std::string text = BatchFolder::completions(50);
  EXPECT_EQ(::write(writer, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(writer);
  EXPECT_EQ(process.wait().code, 0);
  ::close(reader);
  EXPECT_EQ(job.answers().output.size(), 50U);
}

TEST(Stream, AClosedInputIsRefusedAndNoEmptyOne) {
  BatchFolder job;
  job.use_null_device();
  job.input = "-";
  ProcessOptions options = job.command();
  options.closes_input = true;
  const ProcessEnd end = TroupeProcess(options).wait();
  EXPECT_EQ(end.code, 2) << end.err;
  EXPECT_NE(end.err.find("standard input is closed"), std::string::npos) << end.err;
  EXPECT_FALSE(job.files.has("out.jsonl"));
}

/// A small job in so much address space.
ProcessEnd run_within(std::int64_t bytes) {
  BatchFolder job;
  job.use_null_device();
  job.write_input(BatchFolder::completions(20));
  ProcessOptions options = job.command();
  options.memory_bytes_max = bytes;
  return TroupeProcess(options).wait();
}

// Whatever room there is, a run ends by itself with one of the documented codes. Just below what a
// run needs, memory gives out at another place of its start every few MiB: a thread of an actor
// cannot be made, say.
TEST(Memory, TooLittleOfItEndsTheJobWithAMessage) {
  std::int64_t few = 40'000'000, enough = 1'000'000'000;
  while (enough - few > 2'000'000) {
    const std::int64_t middle = (few + enough) / 2;
    (run_within(middle).code == 0 ? enough : few) = middle;
  }
  int ends = 0;
  for (int step = 0; step < 48; ++step) {
    const std::int64_t bytes = enough - step * std::max<std::int64_t>(enough / 64, 2'000'000);
    const ProcessEnd end = run_within(bytes);
    if (end.code == 127 || end.code == 0) continue; // Too little for the loader, or enough.
    ++ends;
    EXPECT_EQ(end.code, 1) << bytes << " bytes: " << end.err;
    EXPECT_NE(end.err.find("troupe: "), std::string::npos) << bytes << " bytes: " << end.err;
    EXPECT_EQ(end.err.find("temporarily unavailable\n"), std::string::npos) << end.err;
  }
  EXPECT_GT(ends, 16) << "a run was enough with " << enough << " bytes";
}

} // namespace
} // namespace troupe::test
