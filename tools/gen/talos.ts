// Writes what docs/ says of cluster.yaml and of findings. A test fails when it is out of date.
import { writeFileSync } from "node:fs";
import { clusterPage } from "../../packages/talos/src/cluster/cluster-page.ts";
import { publishedClusterSchema } from "../../packages/talos/src/cluster/cluster-schema.ts";
import { findingsPage } from "../../packages/talos/src/findings/findings-page.ts";

writeFileSync("docs/reference/talos-cluster.md", clusterPage());
writeFileSync("docs/reference/talos-findings.md", findingsPage());
writeFileSync(
  "docs/reference/gen/talos-cluster.schema.json",
  `${JSON.stringify(publishedClusterSchema(), null, 2)}\n`,
);
