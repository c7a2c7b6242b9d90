// What is so about a node, and why. Pure: from its last report and when it came.
import type { ConditionStatus } from "../condition/condition-times.ts";
import type { AgentSoftware, NodeView } from "./runtime.ts";

export interface NodeCondition {
  readonly type: "Ready" | "MemoryPressure" | "DiskPressure" | "KVMUsable" | "ClockSkew" | "Compatible";
  readonly status: ConditionStatus;
  /** One word. */
  readonly reason: string;
  readonly message?: string;
}

export type NodePhase = "Ready" | "NotReady" | "Unknown";

/** Less than this share of the whole is pressure. */
const LITTLE = 0.05;
/** Reports take a moment, and a sign of life may be newer than the last of them. */
const SKEW_MS = 5_000;

export function nodePhase(view: NodeView | undefined): NodePhase {
  if (view === undefined || view.health === "unknown") return "Unknown";
  return view.health === "online" ? "Ready" : "NotReady";
}

export function nodeConditions(view: NodeView | undefined): readonly NodeCondition[] {
  const phase = nodePhase(view);
  const ready: NodeCondition = {
    type: "Ready",
    status: phase === "Unknown" ? "Unknown" : phase === "Ready" ? "True" : "False",
    reason: phase === "Ready" ? "Reports" : "NoReports",
    ...(phase === "NotReady" ? { message: "its agent does not report; its guests go on running" } : {}),
  };
  const compatible = compatibility(view?.software);
  const report = view?.report;
  // What was so when it was last heard of says nothing about now.
  if (view === undefined || report === undefined || phase !== "Ready")
    return [ready, ...(view?.software?.refused === undefined ? [] : compatible)];
  const { memory, rootfs } = report.usage;
  const full = [
    ...(isLittle(rootfs.avail, rootfs.total) ? ["/"] : []),
    ...report.storages
      .filter(({ active, availBytes, totalBytes }) => active && isLittle(availBytes, totalBytes))
      .map(({ storage }) => `storage ${storage}`),
  ];
  const skew = view.lastSeen - report.at;
  const kvm = view.facts?.capabilities.find(({ name }) => name === "kvm");
  const isShort = isLittle(memory.available, memory.total);
  const isSkewed = Math.abs(skew) > SKEW_MS;
  return [
    ready,
    {
      type: "MemoryPressure",
      status: isShort ? "True" : "False",
      reason: isShort ? "LittleLeft" : "EnoughLeft",
      ...(isShort ? { message: `${share(memory.available, memory.total)} of its memory is available` } : {}),
    },
    {
      type: "DiskPressure",
      status: full.length > 0 ? "True" : "False",
      reason: full.length > 0 ? "LittleLeft" : "EnoughLeft",
      ...(full.length > 0 ? { message: `less than 5 % is free on ${full.join(", ")}` } : {}),
    },
    {
      type: "KVMUsable",
      status: kvm === undefined ? "Unknown" : kvm.available ? "True" : "False",
      reason: kvm === undefined ? "NotTriedYet" : kvm.available ? "GuestRan" : "GuestsAreEmulated",
      ...(kvm === undefined || kvm.available ? {} : { message: kvm.detail }),
    },
    {
      type: "ClockSkew",
      status: isSkewed ? "True" : "False",
      reason: isSkewed ? "ClocksDiffer" : "ClocksAgree",
      ...(isSkewed
        ? {
            message: `its clock is about ${Math.round(Math.abs(skew) / 1000)} s ${skew > 0 ? "behind" : "ahead of"} this server's`,
          }
        : {}),
    },
    ...compatible,
  ];
}

/** Whether its agent and this server can work together: by the protocol, whatever their versions. */
function compatibility(software: AgentSoftware | undefined): readonly NodeCondition[] {
  if (software === undefined) return [];
  const { version, serverVersion, protocol, refused } = software;
  const versions = `agent ${version}, this server ${serverVersion}`;
  if (refused !== undefined)
    return [
      {
        type: "Compatible",
        status: "False",
        reason: "NoCommonProtocol",
        message: `${refused} (${versions})`,
      },
    ];
  const isSame = version === serverVersion;
  return [
    {
      type: "Compatible",
      status: "True",
      reason: isSame ? "SameVersion" : "CommonProtocol",
      ...(isSame ? {} : { message: `${versions}: both speak protocol ${protocol}` }),
    },
  ];
}

function isLittle(left: number, of: number): boolean {
  return of > 0 && left < of * LITTLE;
}

function share(part: number, of: number): string {
  return `${((part / of) * 100).toFixed(1)} %`;
}
