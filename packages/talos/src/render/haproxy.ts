// The load balancer before a Kubernetes API, as haproxy reads it: connections are passed on as they are, to whoever of
// the control planes is ready.
import { isIP } from "node:net";
import { API_PORT, bracketed } from "../cluster/balancer.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";

type Backends = { readonly cluster: Cluster; readonly machines: readonly Machine[] };

/**
 * `front` says where it listens; `behind` is who answers there. Up to Talos v1.13 API servers know no strangers, so that one
 * which runs says 401; one that is not ready says 500.
 */
export function haproxyConfig({ endpoint }: Pick<Cluster, "endpoint">, behind: Backends): string {
  const { name } = behind.cluster.metadata;
  const address = endpoint.loadBalancer?.address ?? "";
  const bind = isIP(address) === 0 ? `:::${endpoint.port} v4v6` : `${bracketed(address)}:${endpoint.port}`;
  const servers = behind.machines
    .filter(({ role }) => role === "controlplane")
    .map((machine) => `    server ${machine.name} ${bracketed(machine.addresses[0] ?? "")}:${API_PORT}`);
  return `# The Kubernetes API of ${name}. Made by gpvectl talos; what is changed here is written over.
global
    maxconn 8192

defaults
    mode tcp
    timeout connect 5s
    timeout client 4h
    timeout server 4h

frontend kubernetes
    bind ${bind}
    default_backend ${name}

backend ${name}
    balance leastconn
    option httpchk GET /readyz
    http-check expect rstatus ^(200|401|403)$
    default-server check check-ssl verify none inter 2s fall 3 rise 2 on-marked-down shutdown-sessions
${servers.join("\n")}
`;
}
