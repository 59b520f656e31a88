// Every event and all options of stages survive their bytes, the bytes are the messages of
// events.proto, and damaged ones are errors.

#include "actors/ledger_text.hpp"
#include "actors/records/event_codec.hpp"
#include "actors/records/ledger_codec.hpp"
#include "actors/records/wire.hpp"
#include "schedulers/stage/field_walker.hpp"
#include "tests/support/random_entries.hpp"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace troupe::actors {
namespace {

namespace pb = google::protobuf;
using test::RandomEntries;

/// Fills every field below a value, now and then with zeros.
class RandomFields {
public:
  explicit RandomFields(RandomEntries& random) : random_(random) {}

  template <class Field>
  RandomFields& operator()(const char* /*name*/, Field& field) {
    fill(field);
    return *this;
  }

  template <class T>
  void fill(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = random_.one_in(2);
    } else if constexpr (std::is_enum_v<T>) {
      constexpr std::uint64_t kHighest = highest_of<T>();
      auto bits = static_cast<std::uint64_t>(random_.count(90'000));
      if constexpr (kHighest < std::numeric_limits<std::uint64_t>::max()) bits %= kHighest + 1;
      value = static_cast<T>(bits);
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(random_.count(90'000));
    } else {
      each_field(value, *this);
    }
  }
  void fill(std::string& text) { text = random_.text(20); }
  void fill(sched::PolicySet& set) {
    set.epoch = PolicyEpoch{random_.below(9)};
    set.text = random_.text(90);
    set.kinds["queue"] = {random_.text(9), OptionTable("queue")};
    set.kinds["queue"].options.set("weight", {0.5, random_.text(9)});
  }
  template <class T>
  void fill(std::vector<T>& list) {
    list.resize(random_.below(4));
    for (T& value : list)
      fill(value);
  }

private:
  RandomEntries& random_;
};

/// Calls `use` with a filled value of each alternative.
template <class Variant, class Use>
void each_filled(RandomEntries& random, Use use) {
  const auto one = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
    Variant value;
    RandomFields fields(random);
    fields.fill(value.template emplace<I>());
    use(value);
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (one(std::integral_constant<std::size_t, I>{}), ...);
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>{});
}

TEST(EventCodec, EveryEventAndAllOptionsSurviveWhole) {
  std::int64_t events = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    RandomEntries random(seed, seed % 2 == 0);
    each_filled<sched::Event>(random, [&](const sched::Event& before) {
      std::string bytes;
      encode(before, bytes);
      const auto after = decode_event(bytes);
      ASSERT_TRUE(after.ok()) << sched::kEventNames[before.index()] << after.error().message;
      ASSERT_EQ(sched::bytes_of_fields(before), sched::bytes_of_fields(*after));
      ++events;
    });
    each_filled<sched::StageOptions>(random, [&](const sched::StageOptions& before) {
      std::string bytes;
      encode(before, bytes);
      const auto after = decode_options(bytes);
      ASSERT_TRUE(after.ok()) << after.error().message;
      ASSERT_EQ(sched::bytes_of_fields(before), sched::bytes_of_fields(*after));
    });
  }
  EXPECT_EQ(events, 200 * static_cast<std::int64_t>(sched::kEventNames.size()));
}

TEST(EventCodec, WhatIsZeroComesBackAsZeroWhateverItsDefault) {
  sched::Arrive arrive;
  arrive.work.sampling = {0, 0, 0, 0, 0, 0, false};
  std::string bytes;
  encode(sched::Event{arrive}, bytes);
  EXPECT_LE(bytes.size(), 4U);
  const auto after = decode_event(bytes);
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(std::get<sched::Arrive>(*after).work.sampling.temperature_bits, 0U);
  EXPECT_EQ(std::get<sched::Arrive>(*after).work.sampling.top_logprobs, 0);
}

/// The messages of events.proto.
class Schema {
public:
  Schema() {
    std::ifstream in(TROUPE_EVENTS_DESCRIPTORS, std::ios::binary);
    pb::FileDescriptorSet files;
    EXPECT_TRUE(files.ParseFromIstream(&in)) << TROUPE_EVENTS_DESCRIPTORS;
    for (const pb::FileDescriptorProto& file : files.file())
      file_ = pool_.BuildFile(file); // What it imports comes before it.
  }

  const pb::Descriptor* find(const std::string& name) const {
    return file_ == nullptr ? nullptr : file_->FindMessageTypeByName(name);
  }
  std::unique_ptr<pb::Message> make(const std::string& name) {
    return std::unique_ptr<pb::Message>(factory_.GetPrototype(find(name))->New());
  }

private:
  pb::DescriptorPool pool_;
  const pb::FileDescriptor* file_ = nullptr;
  pb::DynamicMessageFactory factory_;
};

/// Nothing below the message is unknown to the schema.
void expect_known(const pb::Message& message) {
  const pb::Reflection& reflection = *message.GetReflection();
  EXPECT_EQ(reflection.GetUnknownFields(message).field_count(), 0)
      << message.GetDescriptor()->name();
  std::vector<const pb::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      expect_known(reflection.GetMessage(message, field));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i)
      expect_known(reflection.GetRepeatedMessage(message, field, i));
  }
}

void expect_schema(Schema& schema, const std::string& name, const std::string& bytes) {
  const auto message = schema.make(name);
  ASSERT_TRUE(message->ParseFromString(bytes)) << name;
  expect_known(*message);
  ASSERT_EQ(message->SerializeAsString(), bytes) << message->DebugString();
}

TEST(EventCodec, TheBytesAreMessagesOfTheProtoFile) {
  Schema schema;
  const pb::Descriptor* record = schema.find("EventRecord");
  ASSERT_NE(record, nullptr);
  ASSERT_EQ(record->field_count(), static_cast<int>(sched::kEventNames.size()));
  for (std::size_t i = 0; i < sched::kEventNames.size(); ++i) {
    const pb::FieldDescriptor* field = record->FindFieldByNumber(static_cast<int>(i + 1));
    ASSERT_NE(field, nullptr);
    EXPECT_EQ(field->name(), sched::kEventNames[i]);
  }
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    RandomEntries random(seed, seed % 2 == 0);
    each_filled<sched::Event>(random, [&](const sched::Event& event) {
      std::string bytes;
      encode(event, bytes);
      expect_schema(schema, "EventRecord", bytes);
    });
    each_filled<sched::StageOptions>(random, [&](const sched::StageOptions& options) {
      std::string bytes;
      encode(options, bytes);
      expect_schema(schema, "OptionsRecord", bytes);
    });
  }
}

/// Walks a struct and its message side by side.
class NameCheck {
public:
  explicit NameCheck(const pb::Descriptor& message) : message_(message) {}

  template <class Field>
  NameCheck& operator()(const char* name, const Field& /*field*/) {
    const pb::FieldDescriptor* found = message_.FindFieldByNumber(++number_);
    EXPECT_TRUE(found != nullptr && found->name() == name) << message_.name() << "." << name;
    return *this;
  }
  int fields() const noexcept { return number_; }

private:
  const pb::Descriptor& message_;
  int number_ = 0;
};

TEST(EventCodec, TheFieldsOfTheProtoFileHaveTheNamesOfTheStructs) {
  Schema schema;
  const pb::Descriptor* record = schema.find("EventRecord");
  ASSERT_NE(record, nullptr);
  RandomEntries random(1, false);
  each_filled<sched::Event>(random, [&](const sched::Event& event) {
    const pb::Descriptor& message =
        *record->FindFieldByNumber(static_cast<int>(event.index() + 1))->message_type();
    std::visit(
        [&](const auto& one) {
          NameCheck names(message);
          each_field(one, names);
          EXPECT_EQ(names.fields(), message.field_count()) << message.name();
        },
        event);
  });
}

TEST(EventCodec, DamagedBytesAreErrors) {
  RandomEntries random(7, true);
  std::int64_t refused = 0;
  std::int64_t read = 0;
  for (int round = 0; round < 60; ++round) {
    each_filled<sched::Event>(random, [&](const sched::Event& event) {
      std::string bytes;
      encode(event, bytes);
      bytes[random.below(bytes.size())] ^= static_cast<char>(1U << random.below(8));
      bytes.resize(bytes.size() - random.below(2));
      decode_event(bytes).ok() ? ++read : ++refused; // Neither crashes nor hangs.
    });
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(read, 100);
  EXPECT_FALSE(decode_event("").ok());
  EXPECT_FALSE(decode_options("").ok());
  const auto unknown = decode_event("\xDA\x07\x00"); // Field 123.
  ASSERT_FALSE(unknown.ok());
}

TEST(EventCodec, EntriesOfBothKindsSurviveWhole) {
  LedgerEncoder encoder;
  LedgerDecoder decoder;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    RandomEntries random(seed, false);
    std::uint64_t number = 0;
    const auto survives = [&](auto what) {
      const sched::LedgerEntry before{
          ++number, 5'000, {sched::StageKind::rank, {}}, std::move(what)};
      std::string bytes;
      encoder.encode(before, bytes);
      const auto after = decoder.decode(bytes);
      ASSERT_TRUE(after.ok()) << after.error().message;
      ASSERT_EQ(entry_json(before), entry_json(*after));
    };
    each_filled<sched::Event>(random, [&](const sched::Event& event) {
      survives(sched::StageTook{
          random.below(90), std::make_shared<const sched::Event>(event), {1, 0xFFFFFFFF, 7}});
    });
    survives(sched::StageTook{1, nullptr, {}});
    each_filled<sched::StageOptions>(random, [&](const sched::StageOptions& options) {
      sched::PolicySet set;
      RandomFields(random).fill(set);
      survives(sched::StageBegan{options, set});
    });
  }
}

} // namespace
} // namespace troupe::actors
