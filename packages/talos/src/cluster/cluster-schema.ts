// cluster.yaml as a schema: the validator, the type and what editors are given.
import { isObject } from "@gpve/contracts/json-object.ts";
import { type Static, Type } from "typebox";
import { endpoint, image, network, placement, provider, templates, vmids } from "./infrastructure-schema.ts";
import { controlPlane, node, pool } from "./machine-schema.ts";
import { addons, backup, protect, secrets, talos } from "./operations-schema.ts";
import { allowReferences, referenceDefinitions } from "./schema-references.ts";
import { label, list, section, tags, version } from "./schema-parts.ts";

const labels = Type.Record(Type.String(), Type.String(), {
  default: {},
  description:
    "said of the cluster by `talos output` and `talos status`, for people and programs; tags of its machines are `tags`",
});

export const clusterSchema = section(
  {
    apiVersion: Type.Literal("gpve.io/v1"),
    kind: Type.Literal("TalosCluster"),
    metadata: section({ name: label(), labels }, "the cluster's name"),
    versions: section(
      {
        talos: version(),
        kubernetes: Type.Optional(version()),
        contract: Type.Optional(
          Type.String({ pattern: "^v\\d+\\.\\d+$", description: "a contract like v1.13" }),
        ),
      },
      "what the cluster runs; what is left out is chosen when it is created, and stays",
    ),
    image,
    providers: Type.Array(provider, { minItems: 1 }),
    placement,
    network,
    endpoint,
    vmids,
    templates,
    tags: tags(),
    controlPlane,
    pools: list(pool),
    nodes: Type.Record(Type.String(), node, { default: {} }),
    talos,
    addons,
    backup,
    secrets,
    protect,
  },
  "a Talos cluster",
);

export type ClusterFile = Static<typeof clusterSchema>;

/** The schema for editors: what has a default need not be written, and the environment may say any value. */
export function publishedClusterSchema(): Readonly<Record<string, unknown>> {
  return { ...allowReferences(writtenClusterSchema()), $defs: referenceDefinitions };
}

/** What may be written where no value comes from the environment. */
export function writtenClusterSchema(): Readonly<Record<string, unknown>> {
  const schema = JSON.parse(JSON.stringify(clusterSchema)) as Record<string, unknown>;
  return { $schema: "https://json-schema.org/draft/2020-12/schema", title: "TalosCluster", ...relax(schema) };
}

function relax(value: Record<string, unknown>): Record<string, unknown> {
  const properties = value["properties"] as Record<string, Record<string, unknown>> | undefined;
  const required = value["required"];
  const entries = Object.entries(value).map(([key, inner]): [string, unknown] => {
    if (key === "required" && Array.isArray(required)) {
      return [key, required.filter((name: string) => properties?.[name]?.["default"] === undefined)];
    }
    if (key === "default" || typeof inner !== "object" || inner === null) return [key, inner];
    if (Array.isArray(inner)) {
      return [key, inner.map((item: unknown) => (isObject(item) ? relax(item) : item))];
    }
    return [key, relax(inner as Record<string, unknown>)];
  });
  return Object.fromEntries(entries);
}
