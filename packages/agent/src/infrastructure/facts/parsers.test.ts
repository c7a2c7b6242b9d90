import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  isDiskName,
  isGpu,
  parseCgroupVersion,
  parseNvidiaSmi,
  parseOsRelease,
  parseQemuMachines,
  parseQemuVersion,
  parseSecureBoot,
} from "./host-identity.ts";
import { parseCpuInfo } from "./proc-cpuinfo.ts";
import {
  cpuShares,
  parseCpuTimes,
  parseLoadavg,
  parseMeminfo,
  parseNetDev,
  parsePressure,
  parseUptime,
} from "./proc-usage.ts";

const twoSockets = [0, 1, 2, 3]
  .map(
    (cpu) => `processor\t: ${cpu}
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC 7302
cpu MHz\t\t: 2994.374
physical id\t: ${cpu >> 1}
core id\t\t: ${cpu & 1}
flags\t\t: fpu svm sse`,
  )
  .join("\n\n");

describe("/proc/cpuinfo", () => {
  test("counts sockets, cores and threads and sees virtualisation", () => {
    expect(parseCpuInfo(twoSockets)).toEqual({
      model: "AMD EPYC 7302",
      vendor: "AuthenticAMD",
      sockets: 2,
      cores: 4,
      cpus: 4,
      mhz: "2994.374",
      flags: "fpu svm sse",
      hvm: true,
    });
    const threads = `${twoSockets}\n\n${twoSockets.replaceAll(/processor\t: (\d)/g, "processor\t: 1$1")}`;
    expect(parseCpuInfo(threads)).toMatchObject({ sockets: 2, cores: 4, cpus: 8 });
  });

  test("reads arm64, which names things otherwise", () => {
    const arm =
      "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\nprocessor\t: 1\n";
    expect(parseCpuInfo(arm)).toMatchObject({
      vendor: "0x41",
      model: "0xd0c",
      cores: 2,
      cpus: 2,
      hvm: false,
    });
  });

  test("makes something of anything", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(parseCpuInfo(text).cpus).toBeGreaterThanOrEqual(1);
      }),
    );
  });
});

describe("the kernel's counters", () => {
  test("shares are taken between two readings and stay between 0 and 1", () => {
    const before = parseCpuTimes("cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1 1 1 1");
    const after = parseCpuTimes("cpu  150 0 150 760 140 0 0 0 90 0");
    expect(before).toEqual({ total: 1000, idle: 700, iowait: 100 });
    expect(cpuShares(before, after)).toEqual({ cpu: 0.5, wait: 0.2 });
    expect(cpuShares(after, after)).toEqual({ cpu: 0, wait: 0 });
    const times = fc.record({ total: fc.nat(), idle: fc.nat(), iowait: fc.nat() });
    fc.assert(
      fc.property(times, times, (a, b) => {
        const { cpu, wait } = cpuShares(a, b);
        return cpu >= 0 && cpu <= 1 && wait >= 0 && wait <= 1;
      }),
    );
  });

  test("memory in use is what is not available", () => {
    const text =
      "MemTotal: 1000 kB\nMemFree: 200 kB\nMemAvailable: 600 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n";
    expect(parseMeminfo(text)).toEqual({
      memory: { total: 1_024_000, used: 409_600, free: 204_800, available: 614_400 },
      swap: { total: 51_200, used: 30_720, free: 20_480 },
    });
    expect(parseMeminfo("MemTotal: 10 kB\nMemFree: 4 kB").memory.available).toBe(4_096);
    expect(parseMeminfo("").memory.total).toBe(0);
  });

  test("reads load, uptime, pressure and the hardware's traffic", () => {
    expect(parseLoadavg("0.33 0.21 0.10 2/345 678")).toEqual([0.33, 0.21, 0.1]);
    expect(parseLoadavg("")).toEqual([0, 0, 0]);
    expect(parseUptime("2509.81 5000.1")).toBe(2509);
    const dev =
      "Inter-| Receive\n face |bytes\n  eth0: 10 1 0 0 0 0 0 0 20 2 0\nenp1s0:5 1 0 0 0 0 0 0 7 2\n lo: 99 0 0 0 0 0 0 0 99\n eth0.5: 3 0 0 0 0 0 0 0 3";
    expect(parseNetDev(dev)).toEqual({ received: 15, sent: 27 });
    const psi = "some avg10=1.50 avg60=0.00\nfull avg10=0.25 avg60=0.00";
    expect(parsePressure(psi, "some")).toBe(1.5);
    expect(parsePressure(psi, "full")).toBe(0.25);
    expect(parsePressure(undefined, "some")).toBeUndefined();
    fc.assert(
      fc.property(fc.string(), (text) => {
        parseNetDev(text);
        parseMeminfo(text);
        parseCpuTimes(text);
        return parseUptime(text) === parseUptime(text);
      }),
    );
  });
});

describe("what a host is", () => {
  test("system, control groups and secure boot", () => {
    expect(parseOsRelease('NAME=x\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')).toBe(
      "Debian GNU/Linux 12 (bookworm)",
    );
    expect(parseOsRelease("PRETTY_NAME=Plain")).toBe("Plain");
    expect(parseOsRelease("")).toBe("Linux");
    expect(parseCgroupVersion("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0")).toBe(2);
    expect(
      parseCgroupVersion("tmpfs /sys/fs/cgroup tmpfs rw\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw"),
    ).toBe(1);
    expect(parseSecureBoot(new Uint8Array([6, 0, 0, 0, 1]))).toBe(true);
    expect(parseSecureBoot(new Uint8Array([6, 0, 0, 0, 0]))).toBe(false);
    expect(parseSecureBoot(undefined)).toBe(false);
  });

  test("disks and GPUs", () => {
    expect(["sda", "nvme0n1", "vda", "loop0", "zram0", "dm-3", "sr0", "md127"].filter(isDiskName)).toEqual([
      "sda",
      "nvme0n1",
      "vda",
    ]);
    expect(parseNvidiaSmi("GPU-1, NVIDIA A100, 40960, 550.54\n\nbroken line\n")).toEqual([
      { uuid: "GPU-1", model: "NVIDIA A100", memoryBytes: 42_949_672_960, driver: "nvidia 550.54" },
    ]);
    expect(isGpu("0x030200\n", "0x10de\n")).toBe(true);
    expect(isGpu("0x030000", "0x1234")).toBe(false);
    expect(isGpu("0x020000", "0x10de")).toBe(false);
  });

  test("QEMU's version and machines", () => {
    expect(parseQemuVersion("QEMU emulator version 7.2.22 (Debian 1:7.2)")).toBe("7.2.22");
    expect(parseQemuVersion("QEMU emulator version 10.0")).toBe("10.0");
    expect(parseQemuVersion("?")).toBeUndefined();
    const help =
      "Supported machines are:\npc   Standard (alias)\npc-q35-7.2  Standard\nnone  empty machine\n";
    expect(parseQemuMachines(help)).toEqual(["pc", "pc-q35-7.2"]);
  });
});
