// PVE's methods about the node itself.
import { conflict } from "@gpve/domain/request/failures.ts";
import { createHash } from "node:crypto";
import { given } from "@gpve/contracts/given.ts";
import { PRODUCT_VERSION, PVE_RELEASE, PVE_VERSION, REPO_ID } from "@gpve/contracts/version.ts";
import type { NodeFacts, NodeUsage } from "@gpve/domain/node/runtime.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { HostDns, HostNames, HostPower, HostReport, HostTime } from "@gpve/domain/node/host-ports.ts";

export interface NodeStatistics {
  rows(
    timeframe: "hour" | "day" | "week" | "month" | "year" | "decade",
    consolidation: "AVERAGE" | "MAX",
    nowMs: number,
  ): readonly Readonly<Record<string, number>>[];
}

export interface NodeHandlerDeps {
  readonly clock: Clock;
  readonly facts: () => NodeFacts;
  readonly usage: () => Promise<NodeUsage>;
  /** Bytes of memory that the kernel shares between alike pages. */
  readonly ksmShared: () => Promise<number>;
  readonly statistics: NodeStatistics;
  readonly dns: HostDns;
  readonly hosts: HostNames;
  readonly time: HostTime;
  readonly power: HostPower;
  readonly report: HostReport;
}

export function createNodeHandlers(deps: NodeHandlerDeps): PveHandlers {
  const { clock } = deps;
  return {
    "GET /nodes/{node}/status": async () =>
      nodeStatus(deps.facts(), await deps.usage(), await deps.ksmShared()),
    "POST /nodes/{node}/status": async ({ command }, ctx) => {
      ctx.log.warn({ command, authid: ctx.actor?.authid }, "node power command");
      await deps.power.run(command);
      return null;
    },
    "GET /nodes/{node}/version": () => ({ version: PVE_VERSION, release: PVE_RELEASE, repoid: REPO_ID }),
    "GET /nodes/{node}/time": async () => {
      const timezone = await deps.time.timezone();
      const time = Math.floor(clock.now() / 1_000);
      return { timezone, time, localtime: time + offsetSeconds(timezone, clock.now()) };
    },
    "PUT /nodes/{node}/time": async ({ timezone }) => {
      await deps.time.setTimezone(timezone);
      return null;
    },
    "GET /nodes/{node}/dns": () => deps.dns.read(),
    "PUT /nodes/{node}/dns": async ({ search, dns1, dns2, dns3 }) => {
      await deps.dns.write({
        search,
        ...given({ dns1, dns2, dns3 }),
      });
      return null;
    },
    "GET /nodes/{node}/hosts": async () => {
      const data = await deps.hosts.read();
      return { digest: sha1(data), data };
    },
    "POST /nodes/{node}/hosts": async ({ data, digest }) => {
      if (digest !== undefined && digest !== sha1(await deps.hosts.read()))
        throw conflict("detected modified configuration - file changed by other user? Try again.");
      await deps.hosts.write(data);
      return null;
    },
    "GET /nodes/{node}/report": (_params, ctx) => deps.report.text(ctx.signal),
    "GET /nodes/{node}/rrddata": ({ timeframe, cf }) =>
      deps.statistics.rows(timeframe, cf ?? "AVERAGE", clock.now()),
  };
}

const sha1 = (text: string): string => createHash("sha1").update(text).digest("hex");

/** Types as clients of PVE read them: load and hvm are texts, everything countable is a number. */
export function nodeStatus(facts: NodeFacts, usage: NodeUsage, ksmShared: number): Record<string, unknown> {
  const { kernel, cpu } = facts;
  return {
    uptime: usage.uptimeSeconds,
    idle: 0,
    cpu: usage.cpu,
    wait: usage.wait,
    loadavg: usage.loadavg.map((load) => load.toFixed(2)),
    kversion: `${kernel.sysname} ${kernel.release} ${kernel.version}`,
    "current-kernel": { ...kernel },
    "boot-info": {
      mode: facts.bootMode,
      ...(facts.bootMode === "efi" ? { secureboot: facts.secureBoot } : {}),
    },
    cpuinfo: {
      cpus: cpu.cpus,
      cores: cpu.cores,
      sockets: cpu.sockets,
      model: cpu.model,
      mhz: cpu.mhz,
      flags: cpu.flags,
      hvm: cpu.hvm ? "1" : "0",
      user_hz: cpu.userHz,
    },
    memory: { ...usage.memory },
    swap: { ...usage.swap },
    rootfs: { ...usage.rootfs },
    ksm: { shared: ksmShared },
    pveversion: `pve-manager/${PVE_VERSION}/${REPO_ID}`,
    gpve: {
      version: PRODUCT_VERSION,
      os: facts.osImage,
      accelerator: facts.accelerator,
      "cgroup-version": facts.cgroupVersion,
      ...(facts.qemu === undefined ? {} : { qemu: facts.qemu.version, machines: facts.qemu.machines }),
      disks: facts.disks,
      bridges: facts.bridges,
      gpus: facts.gpus,
      capabilities: facts.capabilities,
    },
  };
}

/** How far the zone's clocks are ahead of UTC at that moment. */
function offsetSeconds(timezone: string, at: number): number {
  try {
    const parts = new Intl.DateTimeFormat("en-US", {
      timeZone: timezone,
      timeZoneName: "longOffset",
    }).formatToParts(at);
    const name = parts.find((part) => part.type === "timeZoneName")?.value ?? "GMT";
    const match = /GMT([+-])(\d{2}):(\d{2})/.exec(name);
    if (match === null) return 0;
    const [, sign, hours, minutes] = match;
    return (sign === "-" ? -1 : 1) * (Number(hours) * 3_600 + Number(minutes) * 60);
  } catch {
    // A zone only the host's files know; its name is still shown.
    return 0;
  }
}
