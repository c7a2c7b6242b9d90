import { expect, test } from "vitest";
import { givenKubeconfigs } from "./kubeconfig.ts";

test("kubeconfigs that are good are told by when they end, and nothing that only looks like one", () => {
  const now = Date.parse("2026-01-02T00:00:00Z");
  const binding = (name: string, endsAt?: string, user?: string) => ({
    metadata: {
      name,
      annotations: {
        ...(endsAt === undefined ? {} : { "gpve.io/ends-at": endsAt }),
        ...(user === undefined ? {} : { "gpve.io/user": user }),
      },
    },
  });
  const [first, second, third, fourth, fifth] = [0, 1, 2, 3, 4].map((digit) => `${digit}123456789abcdef`);
  expect(
    givenKubeconfigs(
      [
        binding(`gpve:kubeconfig:${second}`, "2026-01-04T00:00:00Z", "joe@pve"),
        binding(`gpve:kubeconfig:${first}`, "2026-01-03T00:00:00Z"),
        binding(`gpve:kubeconfig:${third}`, "2026-01-01T00:00:00Z", "gone@pve"),
        binding("gpve:kubeconfig:../secrets", "2026-01-03T00:00:00Z"),
        binding("somebody-elses", "2026-01-03T00:00:00Z"),
        binding(`gpve:kubeconfig:${fourth}`, "soon", "joe@pve"),
        { metadata: { name: `gpve:kubeconfig:${fifth}`, creationTimestamp: "2025-01-02T00:00:00Z" } },
        { metadata: { name: `gpve:kubeconfig:${third}`, creationTimestamp: "2024-12-30T00:00:00Z" } },
      ],
      now,
    ),
  ).toEqual([
    { id: first, user: "", expiresAt: Date.parse("2026-01-03T00:00:00Z") },
    { id: second, user: "joe@pve", expiresAt: Date.parse("2026-01-04T00:00:00Z") },
    // Whoever took the annotation away has it still.
    { id: fourth, user: "joe@pve" },
    { id: fifth, user: "" },
  ]);
});
