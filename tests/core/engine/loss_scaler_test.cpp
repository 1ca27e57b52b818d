#include "core/engine/loss_scaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

Optimization scaled(double initial, std::int64_t window) {
  Optimization how;
  how.initial_loss_scale = initial;
  how.loss_scale_window = window;
  return how;
}

TEST(LossScaler, HalvesOnOverflowAndCountsGoodStepsAnew) {
  LossScaler scaler(scaled(1024, 3));
  EXPECT_THAT(scaler.update(false), IsEmpty());
  EXPECT_THAT(scaler.update(false), IsEmpty());
  EXPECT_THAT(scaler.update(true), IsEmpty());
  EXPECT_EQ(scaler.state(), (LossScale{512, 0}));
  EXPECT_THAT(scaler.update(false), IsEmpty());
  EXPECT_EQ(scaler.state(), (LossScale{512, 1}));
}

TEST(LossScaler, DoublesAfterAWindowOfGoodSteps) {
  LossScaler scaler(scaled(1024, 3));
  for (int i = 0; i < 2; ++i) EXPECT_THAT(scaler.update(false), IsEmpty());
  EXPECT_EQ(scaler.scale(), 1024);
  EXPECT_THAT(scaler.update(false), IsEmpty());
  EXPECT_EQ(scaler.state(), (LossScale{2048, 0}));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(scaler.update(false), IsEmpty());
  EXPECT_EQ(scaler.scale(), 4096);
}

// Programs that halve without end divide by zero in the end.
TEST(LossScaler, StopsAtOneAndSaysThatTrainingDiverges) {
  LossScaler scaler(scaled(3, 100));
  EXPECT_THAT(scaler.update(true), IsEmpty());
  EXPECT_EQ(scaler.scale(), 1.5);
  EXPECT_THAT(scaler.update(true), IsEmpty());
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_THAT(scaler.update(true), HasSubstr("training diverges"));
  EXPECT_EQ(scaler.scale(), 1);
}

TEST(LossScaler, RecoversFromOneWhenGradientsAreGoodAgain) {
  LossScaler scaler(scaled(1, 1));
  EXPECT_THAT(scaler.update(false), IsEmpty());
  EXPECT_THAT(scaler.update(true), IsEmpty());
  EXPECT_EQ(scaler.scale(), 1);
}

TEST(LossScaler, GrowsNoFurtherThanItsCap) {
  LossScaler scaler(scaled(0x1p23, 1));
  for (int i = 0; i < 5; ++i) EXPECT_THAT(scaler.update(false), IsEmpty());
  EXPECT_EQ(scaler.scale(), 0x1p24);
}

TEST(LossScaler, ThatStartsAboveTheCapReturnsToItsStartOnly) {
  LossScaler scaler(scaled(0x1p32, 1));
  EXPECT_THAT(scaler.update(false), IsEmpty());
  EXPECT_EQ(scaler.scale(), 0x1p32);
  EXPECT_THAT(scaler.update(true), IsEmpty());
  EXPECT_THAT(scaler.update(false), IsEmpty());
  EXPECT_THAT(scaler.update(false), IsEmpty());
  EXPECT_EQ(scaler.scale(), 0x1p32);
}

TEST(LossScaler, GoesOnFromItsStateAsIfNeverStopped) {
  const Optimization how = scaled(4096, 3);
  const bool overflows[] = {false, false, true, false, false, false, true, false, false, false};
  LossScaler whole(how);
  for (int stop = 0; stop < 10; ++stop) {
    LossScaler resumed(how, whole.state());
    EXPECT_EQ(resumed.update(overflows[stop]), whole.update(overflows[stop]));
    EXPECT_EQ(resumed.state(), whole.state()) << "after step " << stop;
  }
}

}  // namespace
}  // namespace trainyard
