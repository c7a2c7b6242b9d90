// Guests whose memory the host cannot read: AMD SEV and Intel TDX.
import { canonicalJson } from "@gpve/contracts/canonical-json.ts";
import { refused } from "../../../request/failures.ts";
import { readVmProperty } from "../../config/vm-properties.ts";
import type { AmdSev } from "../../config/property-types.ts";
import type { Build } from "../build.ts";
import type { ConfidentialKind } from "../machine/firmware.ts";
import type { JsonValue } from "../text/option-text.ts";

export function confidentialKind(build: Build): ConfidentialKind | undefined {
  const sev = build.values["amd-sev"];
  if (sev !== undefined) return readVmProperty("amd-sev", sev, "amd-sev").type;
  const tdx = build.values["intel-tdx"];
  return tdx === undefined ? undefined : readVmProperty("intel-tdx", tdx, "intel-tdx").type;
}

export function addConfidential(build: Build): void {
  const sev = build.values["amd-sev"];
  const tdx = build.values["intel-tdx"];
  if (sev !== undefined) {
    build.devices.push("-object", sevObject(build, readVmProperty("amd-sev", sev, "amd-sev")));
    build.machineFlags.push("confidential-guest-support=sev0");
  } else if (tdx !== undefined) {
    addTdx(build, tdx);
  }
}

function addTdx(build: Build, text: string): void {
  const tdx = readVmProperty("intel-tdx", text, "intel-tdx");
  if (build.host.hwCapabilities["intel-tdx"]?.["tdx-support"] !== true)
    throw refused("Your CPU does not support Intel TDX.");
  needOvmf(build, "Intel TDX");
  const object: Record<string, JsonValue> = { "qom-type": "tdx-guest", id: "tdx0" };
  if (tdx.attestation) {
    if (tdx["vsock-cid"] === undefined) throw refused("Missing cid for vsock.");
    if (tdx["vsock-port"] === undefined) throw refused("Missing port for vsock.");
    object["quote-generation-socket"] = {
      type: "vsock",
      cid: String(tdx["vsock-cid"]),
      port: String(tdx["vsock-port"]),
    };
  }
  build.devices.push("-object", canonicalJson(object));
  build.machineFlags.push("confidential-guest-support=tdx0");
  // QEMU takes TDX guests with no other interrupt controller.
  const split = build.stock ? "kernel-irqchip=split" : "kernel_irqchip=split";
  if (!build.machineFlags.includes(split)) build.machineFlags.push(split);
}

function sevObject(build: Build, sev: AmdSev): string {
  const hardware = build.host.hwCapabilities["amd-sev"];
  if (hardware?.["sev-support"] !== true) throw refused("Your CPU does not support AMD SEV.");
  if (sev.type === "es" && !hardware["sev-support-es"])
    throw refused("Your CPU does not support AMD SEV-ES.");
  if (sev.type === "snp" && !hardware["sev-support-snp"])
    throw refused("Your CPU does not support AMD SEV-SNP.");
  needOvmf(build, "AMD SEV");
  const parts = [
    sev.type === "snp" ? "sev-snp-guest" : "sev-guest",
    "id=sev0",
    `cbitpos=${hardware.cbitpos}`,
    `reduced-phys-bits=${hardware["reduced-phys-bits"]}`,
    `policy=0x${(sev.type === "snp" ? snpPolicy(sev) : sevPolicy(sev)).toString(16)}`,
  ];
  if (sev["kernel-hashes"] === true) parts.push("kernel-hashes=on");
  return parts.join(",");
}

/** Guest policy bits; the last one forbids migration, which would hand out the memory. */
function sevPolicy(sev: AmdSev): number {
  return (
    (sev["no-debug"] === true ? 0x1 : 0) |
    (sev["no-key-sharing"] === true ? 0x2 : 0) |
    (sev.type === "es" ? 0x4 : 0) |
    0x8
  );
}

/** SNP policy: bit 17 is reserved as one. */
function snpPolicy(sev: AmdSev): number {
  return 0x2_0000 | (sev["allow-smt"] === false ? 0 : 0x1_0000) | (sev["no-debug"] === true ? 0 : 0x8_0000);
}

function needOvmf(build: Build, what: string): void {
  if (build.values["bios"] !== "ovmf") throw refused(`To use ${what}, you need to change the BIOS to OVMF.`);
}
