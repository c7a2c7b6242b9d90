// The nft table of one instance, replaced as a whole in one transaction.

export function natTableName(instanceId: string): string {
  return `gpve_${instanceId}`;
}

export function natTable(instanceId: string, bridge: string, subnet: string): unknown {
  const name = natTableName(instanceId);
  const table = { family: "ip", name };
  const [addr, len] = subnet.split("/");
  const saddr = { payload: { protocol: "ip", field: "saddr" } };
  const match = (op: string, left: unknown, right: unknown): unknown => ({ match: { op, left, right } });
  return {
    nftables: [
      // Adding first makes the deletion succeed also when there was none.
      { add: { table } },
      { delete: { table } },
      { add: { table } },
      {
        add: {
          chain: {
            family: "ip",
            table: name,
            name: "postrouting",
            type: "nat",
            hook: "postrouting",
            prio: 100,
            policy: "accept",
          },
        },
      },
      {
        add: {
          rule: {
            family: "ip",
            table: name,
            chain: "postrouting",
            expr: [
              match("==", saddr, { prefix: { addr, len: Number(len) } }),
              match("!=", { meta: { key: "oifname" } }, bridge),
              { masquerade: null },
            ],
          },
        },
      },
    ],
  };
}
