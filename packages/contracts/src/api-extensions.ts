// Additions to the first version of our own API, each with a name. Clients ask for a feature, never for a
// version. Names are never removed or given a second meaning.

export const apiExtensions = [
  { name: "objects", description: "Objects as metadata, spec and status under /api/v1/<plural>." },
  { name: "watch", description: "Server-sent events with ?watch=1, resumable by Last-Event-ID." },
  { name: "paging", description: "limit and continue: pages of one list at one revision." },
  { name: "selectors", description: "labelSelector and fieldSelector on lists and watches." },
  { name: "merge-patch", description: "PATCH with application/merge-patch+json." },
  { name: "idempotency-key", description: "Mutations repeated under one Idempotency-Key run once." },
  { name: "plan", description: "POST /api/v1/plan shows what applying objects would change." },
  { name: "apply", description: "POST /api/v1/apply makes many objects so, as one durable operation." },
  { name: "node-probe", description: "POST /api/v1/nodes/{name}/probe tries a node's capabilities again." },
  {
    name: "node-images",
    description: "/api/v1/nodes/{name}/images: cloud images, pulled and checked or built.",
  },
  {
    name: "ha-evidence",
    description:
      "/api/v1/ha/evidence and /api/v1/ha/nodes/{name}/maintenance: why HA did what, and maintenance.",
  },
  {
    name: "vm-backup",
    description: "POST /api/v1/nodes/{name}/vms/{vmid}/backup: full and incremental backups.",
  },
  {
    name: "vm-failover",
    description: "POST /api/v1/virtualmachines/{vmid}/failover: a VM goes on from its replica, with its age.",
  },
  {
    name: "vm-views",
    description: "/api/v1/nodes/{name}/vms/{vmid}/screenshot and /log: screen and words of a VM.",
  },
  {
    name: "vm-tunnel",
    description:
      "/api/v1/virtualmachines/{vmid}/tunnel: a websocket to a TCP port of a VM, for whoever may use its console.",
  },
  {
    name: "tenant-paths",
    description: "/api/v1/tenants/{tenant}/<plural>: what is of one tenant, as the flat paths show it.",
  },
  {
    name: "placement",
    description:
      "node: auto and spec.scheduling of VirtualMachines; placement=auto of POST /nodes/{node}/qemu; /api/v1/placements, /simulate/place, /simulate/node-loss, /virtualmachines/{name}/placement and /vclusters/{name}/placement.",
  },
  {
    name: "move-compression",
    description: "compression=on|off of POST /nodes/{node}/qemu/{vmid}/migrate: RAM goes compressed, or not.",
  },
  { name: "quotas", description: "ResourceQuota bounds tenants, on both faces." },
  {
    name: "role-rules",
    description: "Role.spec.rules: apiGroups, resources and verbs as a second notation for privileges.",
  },
  { name: "audit", description: "GET /api/v1/audit and /api/v1/audit/verify." },
  { name: "coverage", description: "GET /api/v1/coverage: PVE methods implemented and known, per area." },
] as const satisfies readonly { name: string; description: string }[];
