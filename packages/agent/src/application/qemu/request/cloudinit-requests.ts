// Requests about a VM's cloud-init drive.
import type { PveParams } from "@gpve/contracts/gen/pve-params.ts";
import type { HostDns } from "@gpve/domain/node/host-ports.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { MASKED } from "@gpve/domain/vm/change/pending.ts";
import { dumpCloudinit } from "@gpve/domain/vm/cloudinit/cloudinit-drive.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { regenerateCloudinit, type RegenerateCloudinitPorts } from "../config/regenerate-cloudinit.ts";
import { vmKey, vmLock } from "./vm-tasks.ts";

export interface CloudinitRequestDeps {
  readonly host: RegenerateCloudinitPorts;
  readonly engine: Pick<OperationEngine, "withResource">;
  /** The node's own name servers stand in for absent ones. */
  readonly dns: Pick<HostDns, "read">;
  readonly sha1: (text: string) => string;
}

export async function requestCloudinit(
  { host, engine }: CloudinitRequestDeps,
  vmid: number,
  ctx: RequestContext,
): Promise<null> {
  const log = (line: string): void => ctx.log.info({ resource: `qemu/${vmid}` }, line);
  await engine.withResource(vmKey(vmid), vmLock(vmid, ctx.signal), () =>
    regenerateCloudinit(host, vmid, log),
  );
  return null;
}

/** Who may not configure it sees no password. */
export async function showCloudinit(
  { host, dns, sha1 }: CloudinitRequestDeps,
  { vmid, type }: PveParams["GET /nodes/{node}/qemu/{vmid}/cloudinit/dump"],
  ctx: RequestContext,
): Promise<string> {
  const { values } = host.configs.get(vmid);
  const isHidden =
    values["cipassword"] !== undefined && !ctx.access.has(`/vms/${vmid}`, ["VM.Config.Cloudinit"]);
  const shown = isHidden ? { ...values, cipassword: MASKED } : values;
  return dumpCloudinit(shown, { vmid, dns: await dns.read(), sha1 }, type);
}
