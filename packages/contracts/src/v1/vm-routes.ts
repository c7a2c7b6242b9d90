// What /api/v1 offers of VMs. Permissions are on the VM, which the node knows: it checks them. Part of `fixedRoutes`.
import {
  FailoverRequestSchema,
  FailoverResultSchema,
  TaskRefSchema,
  VmBackupRequestSchema,
} from "./bodies.ts";
import { authenticated } from "./permission.ts";
import { count, text } from "./query-parameters.ts";

/** Served apart from the others, as a websocket. */
export const vmTunnelRoute = {
  operationId: "vmTunnel",
  method: "GET",
  path: "/virtualmachines/{vmid}/tunnel",
  summary:
    "A line to a TCP port of a running VM, as a websocket of binary messages; needs VM.Console on the VM. The node must see the address at the VM's own card",
  permission: authenticated,
  audit: "read",
  query: [
    count("port", "The TCP port, from 1 on.", 65_535),
    text("address", "Which of the VM's addresses; default one that its node sees at its cards."),
  ],
  response: { status: 101, schema: "any" },
} as const;

export const vmRoutes = [
  {
    operationId: "backupVm",
    method: "POST",
    path: "/nodes/{name}/vms/{vmid}/backup",
    summary: "Back a VM up, incrementally where that is possible, as an operation; needs VM.Backup on the VM",
    permission: authenticated,
    audit: "write",
    body: VmBackupRequestSchema,
    response: { status: 202, schema: TaskRefSchema },
  },
  {
    operationId: "failoverVm",
    method: "POST",
    path: "/virtualmachines/{vmid}/failover",
    summary:
      "Let a VM whose node is gone go on from the copy that replication made; needs VM.Migrate on the VM",
    permission: authenticated,
    audit: "write",
    body: FailoverRequestSchema,
    response: { status: 200, schema: FailoverResultSchema },
  },
  {
    operationId: "retryVm",
    method: "POST",
    path: "/nodes/{name}/vms/{vmid}/retry",
    summary: "Do again what left a VM Failed, as an operation; needs VM.PowerMgmt on the VM",
    permission: authenticated,
    audit: "write",
    response: { status: 202, schema: TaskRefSchema },
  },
  {
    operationId: "resetVmState",
    method: "POST",
    path: "/nodes/{name}/vms/{vmid}/reset-state",
    summary: "Say that a VM's failure is seen to: it is Stopped again; needs VM.PowerMgmt on the VM",
    permission: authenticated,
    audit: "write",
    response: { status: 202, schema: TaskRefSchema },
  },
  {
    operationId: "vmScreenshot",
    method: "GET",
    path: "/nodes/{name}/vms/{vmid}/screenshot",
    summary: "A VM's screen as a PNG; needs VM.Console on the VM",
    permission: authenticated,
    audit: "read",
    response: { status: 200, schema: "png" },
  },
  vmTunnelRoute,
  {
    operationId: "vmLog",
    method: "GET",
    path: "/nodes/{name}/vms/{vmid}/log",
    summary: "The last lines that a VM's QEMU printed; needs VM.Audit on the VM",
    permission: authenticated,
    audit: "none",
    response: { status: 200, schema: "any" },
  },
] as const;
