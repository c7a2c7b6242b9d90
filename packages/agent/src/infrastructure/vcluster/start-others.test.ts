import { describe, expect, test } from "vitest";
import { startOthers } from "./start-others.ts";

describe("controllers and scheduler", () => {
  const steps = (opened?: () => Promise<void>) => {
    const seen: string[] = [];
    const running = new Set<string>();
    return {
      seen,
      running,
      startPart: async (part: string): Promise<void> => {
        if (running.has(part)) return;
        running.add(part);
        seen.push(part);
      },
      ready: async (speaks?: () => void): Promise<void> => {
        speaks?.();
        speaks?.();
        await Promise.resolve();
        seen.push("ready");
      },
      opened,
    };
  };

  test("are started when the API server speaks", async () => {
    const all = steps();
    await startOthers(all);
    expect(all.seen).toEqual(["kube-controller-manager", "kube-scheduler", "ready"]);
  });

  test("are started again where they gave up before it was ready", async () => {
    const all = steps();
    const ready = async (speaks?: () => void): Promise<void> => {
      await all.ready(speaks);
      all.running.delete("kube-controller-manager");
    };
    await startOthers({ ...all, ready });
    expect(all.seen.at(-1)).toBe("kube-controller-manager");
  });

  test("come after whoever waits for the API alone", async () => {
    const all = steps(async () => void all.seen.push("opened"));
    await startOthers(all);
    expect(all.seen).toEqual(["ready", "opened", "kube-controller-manager", "kube-scheduler"]);
  });

  test("that cannot be started are told of, early or late", async () => {
    for (const opened of [undefined, () => Promise.resolve()]) {
      const startPart = () => Promise.reject(new Error("no such program"));
      await expect(startOthers({ ...steps(opened), startPart })).rejects.toThrow("no such program");
    }
  });
});
