// Every field of every event, option and effect is named: what is kept and compared is all of it.

#include "schedulers/stage/effect_digest.hpp"
#include "schedulers/stage/field_walker.hpp"
#include "schedulers/stage/ledger_entry.hpp"

#include <gtest/gtest.h>

#include <exception>
#include <set>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::sched {
namespace {

/// Stands for a value of any type.
struct Anything {
  template <class T>
  operator T() const { // NOLINT(google-explicit-constructor)
    std::terminate();
  }
};

/// Members of an aggregate.
template <class T, class... Given>
constexpr std::size_t members() {
  if constexpr (requires { T{Given{}..., Anything{}}; }) {
    return members<T, Given..., Anything>();
  } else {
    return sizeof...(Given);
  }
}

struct Three {
  std::string text;
  std::vector<int> list;
  RequestRef ref;
};
static_assert(members<Three>() == 3);

/// Holds the list of each struct below a value against its members.
class MemberCheck {
public:
  template <class T>
  void check(const T& value) {
    if constexpr (std::is_aggregate_v<T>) {
      MemberCheck below;
      each_field(value, below);
      EXPECT_EQ(below.fields_, members<T>()) << typeid(T).name();
      ++structs_;
      structs_ += below.structs_;
    }
  }
  template <class T>
  void check(const std::vector<T>& /*list*/) {
    check(T{});
  }
  template <class... T>
  void check(const std::variant<T...>& /*one*/) {
    (check(T{}), ...);
  }
  template <class T>
  void check(const std::optional<T>& /*value*/) {
    check(T{});
  }
  template <class T>
  void check(const std::shared_ptr<const T>& /*value*/) {
    check(T{});
  }
  template <class Field>
  MemberCheck& operator()(const char* /*name*/, const Field& field) {
    ++fields_;
    check(field);
    return *this;
  }

  std::size_t structs() const noexcept { return structs_; }

private:
  std::size_t fields_ = 0;
  std::size_t structs_ = 0;
};

TEST(Fields, EveryMemberOfEveryEventOptionAndEffectIsListed) {
  MemberCheck all;
  all.check(Event{});
  all.check(StageOptions{});
  all.check(Effect{});
  EXPECT_GT(all.structs(), 100U);
}

TEST(Fields, AnyChangedFieldChangesBytesAndDigest) {
  Assign assign;
  assign.ref = {RequestId{7}, Attempt{1}};
  assign.work.prompt = {1, 2, 3};
  const Effect first = Send{Peer::rank, RankId{2}, assign};
  std::set<std::uint32_t> digests{digest_of(first)};
  std::set<std::string> bytes{bytes_of_fields(std::get<Send>(first))};
  const auto differs = [&](const auto& change) {
    Assign copy = assign;
    change(copy);
    const Effect effect = Send{Peer::rank, RankId{2}, copy};
    EXPECT_TRUE(digests.insert(digest_of(effect)).second);
    EXPECT_TRUE(bytes.insert(bytes_of_fields(std::get<Send>(effect))).second);
  };
  differs([](Assign& one) { one.ref.attempt = Attempt{2}; });
  differs([](Assign& one) { one.work.prompt[2] = 4; });
  differs([](Assign& one) { one.work.prompt.push_back(0); });
  differs([](Assign& one) { one.work.answered.push_back(3); });
  differs([](Assign& one) { one.work.sampling.ignore_eos = true; });
  differs([](Assign& one) { one.lease_us = -1; });
  EXPECT_NE(digest_of(SetTimer{TimerKind::retry, 1, 2}),
            digest_of(SetTimer{TimerKind::retry, 2, 1}));
  EXPECT_NE(digest_of(Forget{{RequestId{1}, {}}}), digest_of(AbandonRank{{}, "\x01"}));
  EXPECT_EQ(effect_name(first), "send assign");
  EXPECT_EQ(effect_name(SetTimer{}), "set_timer");
}

TEST(Fields, ADifferenceIsNamed) {
  Record then;
  then.kind = "step";
  then.ref = {RequestId{3}, Attempt{1}};
  Record now = then;
  EXPECT_EQ(difference_text(rows_of_fields(then), rows_of_fields(now)), "");
  now.ref.attempt = Attempt{2};
  now.value = 9;
  EXPECT_EQ(difference_text(rows_of_fields(then), rows_of_fields(now)),
            "ref.attempt: then 1, now 2; value: then 0, now 9");
  now = then;
  now.candidates.push_back({RankId{4}, -7, true});
  const std::string longer = difference_text(rows_of_fields(then), rows_of_fields(now));
  EXPECT_EQ(longer.find("candidates.size: then 0, now 1"), 0U) << longer;
}

} // namespace
} // namespace troupe::sched
