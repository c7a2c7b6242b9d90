import { Type } from "typebox";
import type { KindDeclaration } from "../kind.ts";
import { privilege, toRead } from "../permission.ts";
import type { V1Permission } from "../permission.ts";

const read: V1Permission = {
  ...privilege("/sdn/zones/localnetwork/{name}", "SDN.Audit", "SDN.Use"),
  mode: "any",
};

export const networkKind: KindDeclaration = {
  kind: "Network",
  plural: "networks",
  aliases: ["network", "net", "bridge", "bridges"],
  scope: "cluster",
  description:
    "A bridge that guests' cards are on, with its VLANs, as the nodes have it. It is shown and not made: bridges come with the node.",
  spec: Type.Object({}, { additionalProperties: false }),
  status: Type.Object({
    nodes: Type.Array(
      Type.Object({
        node: Type.String(),
        up: Type.Optional(Type.Boolean()),
        vlanAware: Type.Optional(Type.Boolean({ description: "Guests' cards may have a VLAN." })),
        mtu: Type.Optional(Type.Integer()),
        addresses: Type.Optional(Type.Array(Type.String({ description: "Of the node on it, 10.0.0.1/24." }))),
        ports: Type.Optional(
          Type.Array(Type.String(), { description: "Interfaces of the host in it, without guests'." }),
        ),
      }),
    ),
    vlans: Type.Array(Type.Integer(), { description: "VLANs that guests' cards on it have." }),
    guests: Type.Integer({ description: "Guests with a card on it." }),
  }),
  namePattern: "^[A-Za-z][A-Za-z0-9_.-]{0,14}$",
  nameWords: "up to 15 letters, digits, dots, dashes and underscores, a letter first",
  permissions: toRead(read),
  selectableFields: [],
  columns: [
    { header: "NAME", field: "metadata.name" },
    { header: "VLANS", field: "status.vlans", format: "list" },
    { header: "GUESTS", field: "status.guests" },
    { header: "NODES", field: "status.nodes", format: "list", wide: true },
  ],
  describe: [
    { title: "Nodes", fields: ["status.nodes"] },
    { title: "Use", fields: ["status.vlans", "status.guests"] },
  ],
  notApplied:
    "networks are shown as the nodes have them; make a bridge on the node, or name it in network.bridges of agent.yaml",
  liveStatus: true,
};
