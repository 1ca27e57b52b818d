#pragma once
#include <span>
#include <string_view>

#include "core/config/job.h"

namespace trainyard {

// One value of an enumeration as scenarios spell it, and a line of help.
template <class E>
struct Choice {
  E value;
  std::string_view name, doc;
};

// All values of E. The tables stand in choices.cpp.
template <class E>
std::span<const Choice<E>> choices();

template <>
std::span<const Choice<Block>> choices();
template <>
std::span<const Choice<Norm>> choices();
template <>
std::span<const Choice<Activation>> choices();
template <>
std::span<const Choice<Position>> choices();
template <>
std::span<const Choice<AttentionImpl>> choices();
template <>
std::span<const Choice<FlopConvention>> choices();
template <>
std::span<const Choice<Order>> choices();
template <>
std::span<const Choice<Recompute>> choices();
template <>
std::span<const Choice<Optimizer>> choices();
template <>
std::span<const Choice<Precision>> choices();
template <>
std::span<const Choice<LearningRateSchedule>> choices();

// The overlaps of [schedule] overlap, as members of Overlap.
template <>
std::span<const Choice<bool Overlap::*>> choices();

// How scenarios and reports spell an enumeration's value.
template <class E>
std::string_view choice_name(E value) {
  for (const Choice<E>& choice : choices<E>())
    if (choice.value == value) return choice.name;
  return "?";
}

}  // namespace trainyard
