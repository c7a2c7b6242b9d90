// Which PVE methods this product implements, and how each is audited. Path, parameters, returns and permission come
// from the generated table (gen/pve-api.json); this list adds what PVE's description does not say.
//
// Pure index methods (GET whose answer is the list of its child paths) need no line: they are derived.

/** write: every call is audited. none: reads. secret: audited, and never with its parameters. */
export type AuditRule = "none" | "write" | "secret";

export interface RouteDecl {
  readonly audit: AuditRule;
  /** Where the code runs; default: the node in `proxyto`, else the server that was asked. */
  readonly runs?: "server" | "node";
  /** The answer goes out as it came: it is a guest's own, with true and false where PVE's own answers have 1 and 0. */
  readonly verbatim?: true;
}

const read: RouteDecl = { audit: "none" };
const readOnNode: RouteDecl = { audit: "none", runs: "node" };
/** PVE asks the node; here every server has it in memory, also while the node is away. */
const readFromMemory: RouteDecl = { audit: "none", runs: "server" };
const write: RouteDecl = { audit: "write" };
const writeOnNode: RouteDecl = { audit: "write", runs: "node" };
const secret: RouteDecl = { audit: "secret" };
const agentRead: RouteDecl = { audit: "none", runs: "node", verbatim: true };
const agentWrite: RouteDecl = { audit: "write", runs: "node", verbatim: true };

export const pveRoutes = {
  "GET /version": read,

  "GET /access/acl": read,
  "PUT /access/acl": write,
  "GET /access/domains": read,
  "POST /access/domains": write,
  "GET /access/domains/{realm}": read,
  "PUT /access/domains/{realm}": write,
  "DELETE /access/domains/{realm}": write,
  "POST /access/domains/{realm}/sync": write,
  "GET /access/groups": read,
  "POST /access/groups": write,
  "GET /access/groups/{groupid}": read,
  "PUT /access/groups/{groupid}": write,
  "DELETE /access/groups/{groupid}": write,
  "PUT /access/password": secret,
  "GET /access/permissions": read,
  "GET /access/roles": read,
  "POST /access/roles": write,
  "GET /access/roles/{roleid}": read,
  "PUT /access/roles/{roleid}": write,
  "DELETE /access/roles/{roleid}": write,
  "GET /access/tfa": read,
  "GET /access/tfa/{userid}": read,
  "GET /access/tfa/{userid}/{id}": read,
  "GET /access/ticket": read,
  "POST /access/ticket": secret,
  "GET /access/users": read,
  "POST /access/users": write,
  "GET /access/users/{userid}": read,
  "PUT /access/users/{userid}": write,
  "DELETE /access/users/{userid}": write,
  "GET /access/users/{userid}/tfa": read,
  "PUT /access/users/{userid}/unlock-tfa": write,
  "GET /access/users/{userid}/token": read,
  "GET /access/users/{userid}/token/{tokenid}": read,
  "POST /access/users/{userid}/token/{tokenid}": write,
  "PUT /access/users/{userid}/token/{tokenid}": write,
  "DELETE /access/users/{userid}/token/{tokenid}": write,
  "POST /access/vncticket": secret,

  "GET /pools": read,
  "POST /pools": write,
  "PUT /pools": write,
  "DELETE /pools": write,
  "GET /pools/{poolid}": read,
  "PUT /pools/{poolid}": write,
  "DELETE /pools/{poolid}": write,

  "GET /cluster/backup-info/not-backed-up": read,
  "GET /cluster/ha/groups": read,
  "GET /cluster/ha/groups/{group}": read,
  "GET /cluster/ha/resources": read,
  "GET /cluster/ha/resources/{sid}": read,
  "GET /cluster/ha/rules": read,
  "GET /cluster/ha/rules/{rule}": read,
  "GET /cluster/ha/status/current": read,
  "GET /cluster/log": read,
  "GET /cluster/nextid": read,
  "GET /cluster/options": read,
  "PUT /cluster/options": write,
  "GET /cluster/replication": read,
  "GET /cluster/replication/{id}": read,
  "GET /cluster/resources": read,
  "GET /cluster/status": read,
  "GET /cluster/tasks": read,

  "GET /nodes": read,
  "GET /nodes/{node}/dns": readOnNode,
  "PUT /nodes/{node}/dns": write,
  "GET /nodes/{node}/hardware/pci": readOnNode,
  "GET /nodes/{node}/lxc": readFromMemory,
  "GET /nodes/{node}/network": readOnNode,
  "GET /nodes/{node}/network/{iface}": readOnNode,
  "GET /nodes/{node}/qemu": readFromMemory,
  "POST /nodes/{node}/qemu": write,
  "DELETE /nodes/{node}/qemu/{vmid}": write,
  "GET /nodes/{node}/qemu/{vmid}/agent": readOnNode,
  "POST /nodes/{node}/qemu/{vmid}/agent": agentWrite,
  "GET /nodes/{node}/qemu/{vmid}/agent/get-fsinfo": agentRead,
  "GET /nodes/{node}/qemu/{vmid}/agent/get-host-name": agentRead,
  "GET /nodes/{node}/qemu/{vmid}/agent/get-memory-block-info": agentRead,
  "GET /nodes/{node}/qemu/{vmid}/agent/get-memory-blocks": agentRead,
  "GET /nodes/{node}/qemu/{vmid}/agent/get-osinfo": agentRead,
  "GET /nodes/{node}/qemu/{vmid}/agent/get-time": agentRead,
  "GET /nodes/{node}/qemu/{vmid}/agent/get-timezone": agentRead,
  "GET /nodes/{node}/qemu/{vmid}/agent/get-users": agentRead,
  "GET /nodes/{node}/qemu/{vmid}/agent/get-vcpus": agentRead,
  "GET /nodes/{node}/qemu/{vmid}/agent/info": agentRead,
  "GET /nodes/{node}/qemu/{vmid}/agent/network-get-interfaces": agentRead,
  "GET /nodes/{node}/qemu/{vmid}/agent/exec-status": readOnNode,
  "GET /nodes/{node}/qemu/{vmid}/agent/file-read": readOnNode,
  "POST /nodes/{node}/qemu/{vmid}/agent/exec": secret,
  "POST /nodes/{node}/qemu/{vmid}/agent/fsfreeze-freeze": agentWrite,
  "POST /nodes/{node}/qemu/{vmid}/agent/fsfreeze-thaw": agentWrite,
  "POST /nodes/{node}/qemu/{vmid}/agent/fstrim": agentWrite,
  "POST /nodes/{node}/qemu/{vmid}/agent/shutdown": agentWrite,
  "POST /nodes/{node}/qemu/{vmid}/agent/suspend-disk": agentWrite,
  "POST /nodes/{node}/qemu/{vmid}/agent/suspend-hybrid": agentWrite,
  "POST /nodes/{node}/qemu/{vmid}/agent/suspend-ram": agentWrite,
  "POST /nodes/{node}/qemu/{vmid}/agent/fsfreeze-status": agentWrite,
  "POST /nodes/{node}/qemu/{vmid}/agent/ping": agentWrite,
  "POST /nodes/{node}/qemu/{vmid}/agent/file-write": secret,
  "POST /nodes/{node}/qemu/{vmid}/agent/set-user-password": secret,
  "POST /nodes/{node}/qemu/{vmid}/monitor": write,
  "PUT /nodes/{node}/qemu/{vmid}/sendkey": secret,
  "PUT /nodes/{node}/qemu/{vmid}/config": write,
  "POST /nodes/{node}/qemu/{vmid}/config": write,
  "GET /nodes/{node}/qemu/{vmid}/status/current": readOnNode,
  "POST /nodes/{node}/qemu/{vmid}/status/reboot": write,
  "POST /nodes/{node}/qemu/{vmid}/status/reset": write,
  "POST /nodes/{node}/qemu/{vmid}/status/resume": write,
  "POST /nodes/{node}/qemu/{vmid}/status/shutdown": write,
  "POST /nodes/{node}/qemu/{vmid}/status/start": write,
  "POST /nodes/{node}/qemu/{vmid}/status/stop": write,
  "POST /nodes/{node}/qemu/{vmid}/status/suspend": write,
  "GET /nodes/{node}/qemu/{vmid}/config": readFromMemory,
  "GET /nodes/{node}/qemu/{vmid}/pending": readFromMemory,
  "GET /nodes/{node}/replication": readFromMemory,
  "GET /nodes/{node}/report": readOnNode,
  "GET /nodes/{node}/rrddata": readOnNode,
  "GET /nodes/{node}/query-url-metadata": readOnNode,
  "GET /nodes/{node}/status": readOnNode,
  "POST /nodes/{node}/status": write,
  "GET /nodes/{node}/storage": readOnNode,
  "GET /nodes/{node}/storage/{storage}/content": readOnNode,
  "POST /nodes/{node}/storage/{storage}/content": writeOnNode,
  "GET /nodes/{node}/storage/{storage}/content/{volume}": readOnNode,
  "POST /nodes/{node}/storage/{storage}/content/{volume}": writeOnNode,
  "PUT /nodes/{node}/storage/{storage}/content/{volume}": writeOnNode,
  "DELETE /nodes/{node}/storage/{storage}/content/{volume}": writeOnNode,
  "POST /nodes/{node}/storage/{storage}/download-url": writeOnNode,
  "GET /nodes/{node}/storage/{storage}/identity": readOnNode,
  "GET /nodes/{node}/storage/{storage}/import-metadata": readOnNode,
  "GET /nodes/{node}/storage/{storage}/prunebackups": readOnNode,
  "DELETE /nodes/{node}/storage/{storage}/prunebackups": writeOnNode,
  "GET /nodes/{node}/storage/{storage}/rrddata": readOnNode,
  "GET /nodes/{node}/storage/{storage}/status": readOnNode,
  "POST /nodes/{node}/storage/{storage}/upload": writeOnNode,
  "GET /nodes/{node}/subscription": readFromMemory,
  "GET /nodes/{node}/tasks": readOnNode,
  "GET /nodes/{node}/tasks/{upid}/log": readOnNode,
  "GET /nodes/{node}/tasks/{upid}/status": readOnNode,
  "DELETE /nodes/{node}/tasks/{upid}": write,
  "GET /nodes/{node}/time": readOnNode,
  "PUT /nodes/{node}/time": write,
  "GET /nodes/{node}/version": readOnNode,
  "POST /nodes/{node}/vzdump": write,
  "GET /nodes/{node}/vzdump/extractconfig": readOnNode,

  "GET /storage": read,
  "POST /storage": secret,
  "GET /storage/{storage}": read,
  "PUT /storage/{storage}": secret,
  "DELETE /storage/{storage}": write,
} as const satisfies Record<string, RouteDecl>;

export type DeclaredRoute = keyof typeof pveRoutes;

export function declaredRoute(key: string): RouteDecl | undefined {
  return Object.hasOwn(pveRoutes, key) ? pveRoutes[key as DeclaredRoute] : undefined;
}
