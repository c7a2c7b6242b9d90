import { readdirSync, readFileSync } from "node:fs";
import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import { ignore } from "../background.ts";
import { metricText, type Sample } from "./exposition.ts";

/** Finer costs more wake-ups of an idle process: 20 ms is under 0.2 % of a core. */
const RESOLUTION_MS = 20;

export interface ProcessMetrics {
  collect(): string;
  close(): void;
}

/** CPU, memory, descriptors, heap and event-loop lag of this process. Lag percentiles are since the last scrape. */
export function processMetrics(): ProcessMetrics {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  let utilisation = performance.eventLoopUtilization();
  return {
    collect: () => {
      const cpu = process.cpuUsage();
      const memory = process.memoryUsage();
      const loop = performance.eventLoopUtilization();
      const busy = performance.eventLoopUtilization(loop, utilisation).utilization;
      utilisation = loop;
      // The monitor counts the whole distance between two ticks; the part that was waited for is no lag.
      const lag = (percentile: number): number =>
        Math.max(0, delay.percentile(percentile) / 1e9 - RESOLUTION_MS / 1e3);
      const lags: Sample[] =
        delay.count === 0 ? [] : [50, 90, 99, 100].map((p) => [{ quantile: p / 100 }, lag(p)]);
      delay.reset();
      const gauge = (name: string, help: string, value: number | undefined): string =>
        metricText(name, "gauge", help, value === undefined ? [] : [[{}, value]]);
      return [
        metricText("process_cpu_seconds_total", "counter", "CPU time used.", [
          [{ mode: "user" }, cpu.user / 1e6],
          [{ mode: "system" }, cpu.system / 1e6],
        ]),
        gauge("process_start_time_seconds", "When the process started.", performance.timeOrigin / 1e3),
        gauge("process_resident_memory_bytes", "Resident memory.", memory.rss),
        gauge("process_open_fds", "Open file descriptors.", openFds()),
        gauge("process_max_fds", "Limit of open file descriptors.", maxFds()),
        gauge("nodejs_heap_size_total_bytes", "Heap reserved.", memory.heapTotal),
        gauge("nodejs_heap_size_used_bytes", "Heap in use.", memory.heapUsed),
        gauge("nodejs_external_memory_bytes", "Memory of buffers and other native objects.", memory.external),
        metricText("nodejs_eventloop_lag_seconds", "gauge", "Event-loop lag since the last scrape.", lags),
        gauge("nodejs_eventloop_utilization_ratio", "Share of time the event loop was busy.", busy),
      ].join("");
    },
    close: () => delay.disable(),
  };
}

function openFds(): number | undefined {
  try {
    return readdirSync("/proc/self/fd").length;
  } catch (err) {
    ignore(err, "no /proc, or no descriptor left to read it with");
    return undefined;
  }
}

function maxFds(): number | undefined {
  try {
    const match = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"));
    return match === null ? undefined : Number(match[1]);
  } catch (err) {
    ignore(err, "no /proc, or no descriptor left to read it with");
    return undefined;
  }
}
