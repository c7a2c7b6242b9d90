// The name servers of this node. systemd-resolved writes itself into the first list, and whom it asks into the second.
import { type NodeNameServers, reachableNameServers } from "@gpve/domain/vcluster/vnode/name-servers.ts";
import { readTextFile } from "@gpve/kit/atomic-file.ts";
import { parseResolvConf } from "../host/resolv-conf.ts";
import { ownAddresses } from "../vcluster/network/host-networks.ts";

const LISTS = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];

export function nodeNameServers(read: (path: string) => string | undefined = readTextFile): NodeNameServers {
  const own = ownAddresses();
  const lists = LISTS.map((path): NodeNameServers => {
    const { dns1, dns2, dns3 } = parseResolvConf(read(path) ?? "");
    return { listed: [dns1, dns2, dns3].filter((server) => server !== undefined), own };
  });
  return lists.find((list) => reachableNameServers(list).length > 0) ?? { listed: [], own };
}
