// What can be wrong, as data: `explain`, the page in docs/ and every report read the same table.

export type Area = "file" | "secrets" | "platform" | "image" | "network" | "machine" | "etcd" | "kubernetes";

export interface FindingKind {
  readonly area: Area;
  /** The question or symptom by which a person finds it. */
  readonly title: string;
  /** What the report shows as proof. */
  readonly evidence: string;
  readonly cause: string;
  readonly fix: string;
}

export const severities = ["error", "warning"] as const;
export type Severity = (typeof severities)[number];
