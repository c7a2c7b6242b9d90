// Clocks: what a guest system expects of the RTC and of the timers.
import type { Build } from "../build.ts";

export function addTimers(build: Build): void {
  const { windows } = build;
  let localtime = build.flag("localtime");
  let driftFix = build.flag("tdf");
  if (windows >= 5) {
    localtime ??= true;
    if (build.flag("acpi") !== false) driftFix ??= true;
  }
  const noHpet = windows >= 6 || (build.values["ostype"] === "l26" && build.guard(10, 1));
  // The PIT of KVM exists only with KVM.
  if (windows >= 6 && (build.kvm || !build.stock))
    build.cmd.push("-global", "kvm-pit.lost_tick_policy=discard");
  if (noHpet && (build.machine.base === "i440fx" || build.q35) && build.knows("hpet-flag"))
    build.machineFlags.push("hpet=off");
  if (driftFix === true) build.rtcFlags.push("driftfix=slew");
  const start = build.values["startdate"] ?? "now";
  if (start !== "now") build.rtcFlags.push(`base=${start}`);
  else if (localtime === true) build.rtcFlags.push("base=localtime");
}
