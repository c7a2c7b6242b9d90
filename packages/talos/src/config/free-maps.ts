/** Fields that hold names of the user's choice, and texts behind them. */
export const freeMaps: ReadonlySet<string> = new Set([
  "annotations",
  "env",
  "extraArgs",
  "labels",
  "mirrors",
  "nodeAnnotations",
  "nodeLabels",
  "nodeTaints",
  "params",
  "sysctls",
  "sysfs",
  "taints",
]);
