// Goal: every form of a batch file gives the right lines, in bounded memory, however it is cut.
// Method: small files with known lines, compared as text; a pipe that writes byte by byte.

#include "actors/app/batch_files.hpp"
#include "tests/actors/app/temporary_folder.hpp"
#include "tests/support/unsized_file.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <thread>

namespace troupe::app {
namespace {

constexpr std::int64_t kLimit = 16;

/// "number@offset:text" of each line, or "number@offset!length" of one that is too long.
std::string read_all(LineReader& reader) {
  std::ostringstream out;
  InputLine line;
  for (;;) {
    const auto state = reader.next(line);
    if (!state) {
      out << "error: " << state.error().message;
    }
    if (!state || *state == ReadState::end) {
      return out.str();
    }
    out << line.number << '@' << line.offset;
    if (line.is_too_long) {
      out << '!' << line.length << '|';
    } else {
      out << ':' << line.text << '|';
    }
  }
}

std::string read_text(const std::string& bytes, std::int64_t limit = kLimit) {
  const TemporaryFolder folder;
  auto reader = LineReader::open(folder.write("in", bytes), limit);
  EXPECT_TRUE(reader.ok());
  const std::string out = read_all(*reader);
  EXPECT_EQ(reader->input_bytes(), static_cast<std::int64_t>(bytes.size()));
  EXPECT_EQ(reader->input_digest(), digest_of(bytes));
  return out;
}

struct ReaderCase {
  std::string name;
  std::string bytes;
  std::string expected;
};

class LineReaderForms : public testing::TestWithParam<ReaderCase> {};

TEST_P(LineReaderForms, GivesTheLines) {
  EXPECT_EQ(read_text(GetParam().bytes), GetParam().expected);
}

const std::string kMark = "\xEF\xBB\xBF";
const std::string kLong(17, 'x');
const std::string kFits(16, 'x');

INSTANTIATE_TEST_SUITE_P(
    Files, LineReaderForms,
    testing::Values(
        ReaderCase{"empty", "", ""}, ReaderCase{"newline", "\n", ""},
        ReaderCase{"newlines", "\n\n\n", ""}, ReaderCase{"one", "a\n", "1@0:a|"},
        ReaderCase{"no_last_newline", "a", "1@0:a|"}, ReaderCase{"two", "a\nb\n", "1@0:a|2@2:b|"},
        ReaderCase{"two_no_last_newline", "a\nb", "1@0:a|2@2:b|"},
        ReaderCase{"ends_in_blank", "a\n\n", "1@0:a|"},
        ReaderCase{"blank_in_the_middle", "a\n\nb\n", "1@0:a|3@3:b|"},
        ReaderCase{"spaces_are_blank", "a\n  \t \nb\n", "1@0:a|3@7:b|"},
        ReaderCase{"blank_first", "\na\n", "2@1:a|"},
        ReaderCase{"blank_last_without_newline", "a\n  ", "1@0:a|"},
        ReaderCase{"windows", "a\r\nb\r\n", "1@0:a|2@3:b|"},
        ReaderCase{"windows_no_last_newline", "a\r\nb", "1@0:a|2@3:b|"},
        ReaderCase{"windows_blank", "a\r\n\r\nb\r\n", "1@0:a|3@5:b|"},
        ReaderCase{"return_at_end_of_file", "a\r", "1@0:a|"},
        ReaderCase{"two_returns", "a\r\r\n", "1@0:a\r|"},
        ReaderCase{"return_inside", "a\rb\n", "1@0:a\rb|"},
        ReaderCase{"mixed_line_ends", "a\nb\r\nc", "1@0:a|2@2:b|3@5:c|"},
        ReaderCase{"mark", kMark + "a\n", "1@3:a|"}, ReaderCase{"mark_alone", kMark, ""},
        ReaderCase{"mark_and_newline", kMark + "\na\n", "2@4:a|"},
        ReaderCase{"mark_windows", kMark + "a\r\n", "1@3:a|"},
        ReaderCase{"mark_in_second_line", "a\n" + kMark + "b\n", "1@0:a|2@2:" + kMark + "b|"},
        ReaderCase{"half_mark", "\xEF\xBB", "1@0:\xEF\xBB|"},
        ReaderCase{"fits", kFits + "\n", "1@0:" + kFits + "|"},
        ReaderCase{"fits_windows", kFits + "\r\n", "1@0:" + kFits + "|"},
        ReaderCase{"fits_after_mark", kMark + std::string(13, 'x') + "\n",
                   "1@3:" + std::string(13, 'x') + "|"},
        ReaderCase{"too_long", kLong + "\nb\n", "1@0!17|2@18:b|"},
        ReaderCase{"too_long_windows", kLong + "\r\nb\n", "1@0!17|2@19:b|"},
        ReaderCase{"too_long_last", "a\n" + kLong, "1@0:a|2@2!17|"},
        ReaderCase{"too_long_with_return_inside", kFits + "\rx\n", "1@0!18|"},
        ReaderCase{"too_long_two_returns", kFits + "\r\r\n", "1@0!17|"},
        ReaderCase{"too_long_blank", std::string(40, ' ') + "\na\n", "2@41:a|"},
        ReaderCase{"two_too_long", kLong + "\n" + kLong + "\n", "1@0!17|2@18!17|"},
        ReaderCase{"zero_byte", std::string("a\0b\n", 4), std::string("1@0:a\0b|", 8)},
        ReaderCase{"only_return", "\r\n\r\n", ""},
        ReaderCase{"vertical_tab_is_text", "\v\n", "1@0:\v|"},
        ReaderCase{"space_before_text", "  a \n", "1@0:  a |"},
        ReaderCase{"text_of_utf8", "\xC3\xA4\n", "1@0:\xC3\xA4|"},
        ReaderCase{"broken_utf8_is_kept", "\xFF\xFE\n", "1@0:\xFF\xFE|"}),
    [](const auto& tested) { return tested.param.name; });

TEST(LineReader, LinesAcrossTheBufferAreWhole) {
  std::string bytes;
  std::vector<std::string> expected;
  for (int i = 0; i < 40; ++i) {
    expected.push_back(std::string(static_cast<std::size_t>(30'000 + i * 13), 'a' + i % 26));
    bytes += expected.back() + (i % 3 == 0 ? "\r\n" : "\n");
  }
  const TemporaryFolder folder;
  auto reader = LineReader::open(folder.write("in", bytes), 1 << 20);
  ASSERT_TRUE(reader.ok());
  InputLine line;
  for (const std::string& text : expected) {
    ASSERT_EQ(*reader->next(line), ReadState::line);
    EXPECT_EQ(line.text, text);
    EXPECT_EQ(line.digest, digest_of(text));
  }
  EXPECT_EQ(*reader->next(line), ReadState::end);
  EXPECT_EQ(*reader->next(line), ReadState::end);
}

TEST(LineReader, ALongLineIsSkippedWithoutBeingKept) {
  const std::string huge(20 << 20, 'y');
  const TemporaryFolder folder;
  const std::string path = folder.write("in", huge + "\r\nafter\n");
  auto reader = LineReader::open(path, 1 << 20);
  ASSERT_TRUE(reader.ok());
  InputLine line;
  ASSERT_EQ(*reader->next(line), ReadState::line);
  EXPECT_TRUE(line.is_too_long);
  EXPECT_EQ(line.length, static_cast<std::int64_t>(huge.size()));
  EXPECT_EQ(line.digest, digest_of(huge));
  EXPECT_LT(line.text.capacity(), 1U << 20);
  ASSERT_EQ(*reader->next(line), ReadState::line);
  EXPECT_EQ(line.text, "after");
}

TEST(LineReader, AFileThatIsToldToBeEmptyIsReadAllTheSame) {
  const test::UnsizedFile file("one\ntwo");
  auto reader = LineReader::open(file.path(), kLimit);
  ASSERT_TRUE(reader.ok()) << reader.error().message;
  EXPECT_EQ(read_all(*reader), "1@0:one|2@4:two|");
  auto fetcher = LineFetcher::open(file.path());
  ASSERT_TRUE(fetcher.ok());
  InputLine line{2, 4, 3, digest_of("two"), false, ""};
  EXPECT_TRUE(fetcher->fetch(line).ok());
  EXPECT_EQ(line.text, "two");
}

TEST(LineReader, RefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(LineReader::open(folder.path("none"), kLimit).error().code, ErrorCode::not_found);
  EXPECT_EQ(LineReader::open(folder.path(""), kLimit).error().code, ErrorCode::bad_argument);
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto opened = LineReader::open(pipe, kLimit);
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message.find("- for standard input"), std::string::npos);
}

TEST(LineReader, ReadsStandardInputAsItComes) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const int saved = ::dup(STDIN_FILENO);
  ASSERT_GE(::dup2(ends[0], STDIN_FILENO), 0);
  auto reader = LineReader::open("-", kLimit);
  ASSERT_TRUE(reader.ok());
  InputLine line;
  EXPECT_EQ(*reader->next(line, 0), ReadState::waiting);
  for (const char c : std::string("\xEF\xBB\xBFone")) {
    ASSERT_EQ(::write(ends[1], &c, 1), 1);
  }
  EXPECT_EQ(*reader->next(line, 0), ReadState::waiting);
  ASSERT_EQ(::write(ends[1], "\ntwo", 4), 4);
  ASSERT_EQ(*reader->next(line, 0), ReadState::line);
  EXPECT_EQ(line.text, "one");
  EXPECT_EQ(line.offset, 3);
  EXPECT_EQ(*reader->next(line, 0), ReadState::waiting);
  ::close(ends[1]);
  ASSERT_EQ(*reader->next(line, 0), ReadState::line);
  EXPECT_EQ(line.text, "two");
  EXPECT_EQ(*reader->next(line, 0), ReadState::end);
  ::dup2(saved, STDIN_FILENO);
  ::close(saved);
  ::close(ends[0]);
}

TEST(LineFetcher, ReadsALineAgainAndSeesAChange) {
  const TemporaryFolder folder;
  const std::string path = folder.write("in", "first\nsecond\n" + kLong + "\n");
  auto reader = LineReader::open(path, kLimit);
  std::vector<InputLine> lines(3);
  for (InputLine& line : lines) {
    ASSERT_EQ(*reader->next(line), ReadState::line);
  }
  auto fetcher = LineFetcher::open(path);
  ASSERT_TRUE(fetcher.ok());
  for (InputLine& line : lines) {
    const std::string text = line.text;
    line.text.clear();
    EXPECT_TRUE(fetcher->fetch(line).ok());
    EXPECT_EQ(line.text, text);
  }
  folder.write("in", "first\nsecOnd\n" + std::string(17, 'z') + "\n");
  EXPECT_TRUE(fetcher->fetch(lines[0]).ok());
  const Status second = fetcher->fetch(lines[1]);
  EXPECT_EQ(second.error().code, ErrorCode::mismatch);
  EXPECT_NE(second.error().message.find(":2:"), std::string::npos);
  EXPECT_EQ(fetcher->fetch(lines[2]).error().code, ErrorCode::mismatch);
  folder.write("in", "fi");
  EXPECT_EQ(fetcher->fetch(lines[0]).error().code, ErrorCode::mismatch);
}

TEST(DuplicateFinder, NamesTheFirstLine) {
  DuplicateFinder finder;
  EXPECT_EQ(finder.first_line_of("a", 1), 0);
  EXPECT_EQ(finder.first_line_of("b", 2), 0);
  EXPECT_EQ(finder.first_line_of("a", 7), 1);
  EXPECT_EQ(finder.first_line_of("a", 9), 1);
}

TEST(BatchPaths, FillsInWhatWasLeftOut) {
  EXPECT_EQ(batch_paths("in", "d/results.jsonl", "").errors, "d/results.errors.jsonl");
  EXPECT_EQ(batch_paths("in", "d.x/results", "").errors, "d.x/results.errors");
  EXPECT_EQ(batch_paths("in", "results.jsonl", "").journal, "results.jsonl.journal");
  EXPECT_EQ(batch_paths("in", "results.jsonl", "e").errors, "e");
  EXPECT_EQ(batch_paths("-", "results.jsonl", "").journal, "");
}

TEST(BatchPaths, RefusesOneFileForTwoThings) {
  const TemporaryFolder folder;
  const std::string in = folder.write("in", "x");
  const std::string out = folder.path("out");
  const auto check = [&](const BatchPaths& paths) { return check_batch_paths(paths); };
  EXPECT_TRUE(check(batch_paths(in, out, "")).ok());
  EXPECT_FALSE(folder.has("out")) << "a check makes nothing";
  EXPECT_EQ(check(batch_paths(in, in, "")).error().code, ErrorCode::bad_argument);
  EXPECT_EQ(check(batch_paths(in, out, out)).error().code, ErrorCode::bad_argument);
  EXPECT_EQ(check(batch_paths(in, out, in)).error().code, ErrorCode::bad_argument);
  EXPECT_EQ(check(batch_paths(in, out, out + ".journal")).error().code, ErrorCode::bad_argument);
  EXPECT_EQ(check(batch_paths(in, out, folder.path("./out"))).error().code,
            ErrorCode::bad_argument);
  std::filesystem::create_symlink(in, folder.path("soft"));
  std::filesystem::create_hard_link(in, folder.path("hard"));
  EXPECT_EQ(check(batch_paths(in, folder.path("soft"), "")).error().code, ErrorCode::bad_argument);
  EXPECT_EQ(check(batch_paths(in, folder.path("hard"), "")).error().code, ErrorCode::bad_argument);
}

TEST(BatchPaths, RefusesWhatCannotHoldResults) {
  const TemporaryFolder folder;
  const std::string in = folder.write("in", "x");
  EXPECT_EQ(check_batch_paths(batch_paths(in, "/dev/null", folder.path("e"))).error().code,
            ErrorCode::bad_argument);
  EXPECT_EQ(check_batch_paths(batch_paths(in, folder.path(""), folder.path("e"))).error().code,
            ErrorCode::bad_argument);
  EXPECT_EQ(check_batch_paths(batch_paths(in, folder.path("no/out"), "")).error().code,
            ErrorCode::not_found);
  EXPECT_EQ(check_batch_paths(batch_paths(in, "", "e")).error().code, ErrorCode::bad_argument);
  EXPECT_EQ(
      check_batch_paths(batch_paths(folder.path("none"), folder.path("out"), "")).error().code,
      ErrorCode::not_found);
}

TEST(Digest, IsWrittenHighHalfFirst) {
  EXPECT_EQ(hex({0x0123456789abcdefULL, 0xfedcba9876543210ULL}),
            "0123456789abcdeffedcba9876543210");
  // XXH3-128 of nothing, as in the published test vectors.
  EXPECT_EQ(hex(digest_of("")), "99aa06d3014798d86001c324468d497f");
}

} // namespace
} // namespace troupe::app
