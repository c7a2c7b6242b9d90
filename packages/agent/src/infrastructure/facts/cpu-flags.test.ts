import { expect, it } from "vitest";
import type { ExecOptions } from "@gpve/kit/exec.ts";
import { parseExpansion, parseUnderstoodFlags, readCpuFlags } from "./cpu-flags.ts";

const HELP =
  "Available CPUs:\nx86 486  (alias)\n\nRecognized CPUID flags:\n  3dnow abm aes\n  avx vmx kvmclock kvmclock\n";
const EXPANSION =
  '{"QMP": {}}\n{"return": {}}\n{"return": {"model": {"props": {"aes": true, "avx": false, "x2apic": true, "family": 6}}}, "id": "max"}\n';

it("reads what QEMU prints", () => {
  expect(parseUnderstoodFlags(HELP)).toEqual(["3dnow", "abm", "aes", "avx", "kvmclock", "vmx"]);
  expect(parseUnderstoodFlags("nothing")).toEqual([]);
  expect(parseExpansion(EXPANSION)).toEqual(["aes", "x2apic"]);
  expect(parseExpansion('{"return": {}}\nnot json')).toBeUndefined();
});

it("keeps what is understood; an accelerator that does not start has none", async () => {
  const exec = async (_file: string, args: readonly string[], _options?: ExecOptions) => {
    if (args.some((arg) => arg.includes("accel=kvm"))) throw new Error("no /dev/kvm");
    return { code: 0, stdout: args[0] === "-cpu" ? HELP : EXPANSION, stderr: "" };
  };
  expect(await readCpuFlags(exec, "qemu")).toEqual({
    understood: ["3dnow", "abm", "aes", "avx", "kvmclock", "vmx"],
    tcg: ["aes"],
    kvm: [],
  });
  expect(await readCpuFlags(() => Promise.reject(new Error("gone")), "qemu")).toBeUndefined();
});
