//! Which GPUs there are, what they can do, and which one to take.

use super::error::GpuError;
use blade_graphics as blade;

/// The kind of an adapter, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AdapterKind {
    /// A card with memory of its own, or an Apple GPU.
    Discrete,
    /// A GPU that shares the processor's memory, or one of unknown kind.
    Integrated,
    /// A driver that computes on the processor, such as lavapipe.
    Software,
}

impl std::fmt::Display for AdapterKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Discrete => "discrete GPU",
            Self::Integrated => "integrated GPU",
            Self::Software => "software driver",
        })
    }
}

/// A GPU as its driver describes it.
#[derive(Debug, Clone)]
pub struct Adapter {
    /// The id by which [`Context::with_device_id`](super::Context::with_device_id) selects it.
    pub device_id: u32,
    /// The device's name.
    pub name: String,
    /// The driver's name and version.
    pub driver: String,
    /// Its kind; the driver only tells software apart, the rest is judged by name.
    pub kind: AdapterKind,
    /// Why it cannot be used, if it cannot.
    pub rejected: Option<String>,
    /// Side of the square tiles of cooperative matrices with f16 operands, 0 without.
    pub f16_tile: u32,
    /// Side of the square tiles of cooperative matrices with f32 operands, 0 without.
    pub f32_tile: u32,
    /// Whether shaders may compute in 16-bit floats.
    pub shader_float16: bool,
}

impl Adapter {
    /// True for a driver that computes on the processor.
    pub fn is_software(&self) -> bool {
        self.kind == AdapterKind::Software
    }

    pub(super) fn from_information(device_id: u32, information: &blade::DeviceInformation) -> Self {
        Self {
            device_id,
            name: information.device_name.clone(),
            driver: format!("{} {}", information.driver_name, information.driver_info)
                .trim()
                .to_owned(),
            kind: judge_kind(information),
            rejected: None,
            f16_tile: 0,
            f32_tile: 0,
            shader_float16: false,
        }
    }

    pub(super) fn set_capabilities(&mut self, capabilities: &blade::Capabilities) {
        self.f16_tile = capabilities.cooperative_matrix.f16_tile;
        self.f32_tile = capabilities.cooperative_matrix.f32_tile;
        self.shader_float16 = capabilities.shader_float16;
    }

    fn from_report(report: &blade::DeviceReport) -> Self {
        let mut adapter = Self::from_information(report.device_id, &report.information);
        match &report.status {
            blade::DeviceReportStatus::Available { caps, .. } => adapter.set_capabilities(caps),
            blade::DeviceReportStatus::Rejected(reason) => adapter.rejected = Some(reason.clone()),
        }
        adapter
    }
}

impl std::fmt::Display for Adapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}, {})", self.name, self.kind, self.driver)
    }
}

/// Lists the GPUs of this machine, those that cannot be used included.
pub fn adapters() -> Result<Vec<Adapter>, GpuError> {
    let reports =
        blade::Context::enumerate().map_err(|error| GpuError::Unavailable(error.to_string()))?;
    Ok(reports.iter().map(Adapter::from_report).collect())
}

/// Picks the best usable adapter: discrete, then integrated, then software.
pub(super) fn choose(adapters: &[Adapter]) -> Result<&Adapter, GpuError> {
    adapters
        .iter()
        .filter(|adapter| adapter.rejected.is_none())
        .min_by_key(|adapter| adapter.kind)
        .ok_or_else(|| {
            let mut reasons = adapters
                .iter()
                .map(|adapter| {
                    let reason = adapter.rejected.as_deref().unwrap_or_default();
                    format!("{}: {reason}", adapter.name)
                })
                .collect::<Vec<_>>();
            if reasons.is_empty() {
                reasons.push("the driver reports no device".to_owned());
            }
            GpuError::Unavailable(reasons.join("; "))
        })
}

/// The graphics library tells software drivers apart but not integrated from discrete
/// GPUs, so names decide. A wrong guess only matters on a machine that has both.
fn judge_kind(information: &blade::DeviceInformation) -> AdapterKind {
    if information.is_software_emulated {
        return AdapterKind::Software;
    }
    let name = information.device_name.to_lowercase();
    let nvidia = (name.contains("nvidia") || name.contains("geforce") || name.contains("quadro"))
        && !name.contains("tegra");
    let amd =
        name.contains("radeon rx") || name.contains("radeon pro") || name.contains("instinct");
    let intel = name.contains("arc(tm) a") || name.contains("arc(tm) b");
    if nvidia || amd || intel || name.contains("apple") {
        AdapterKind::Discrete
    } else {
        AdapterKind::Integrated
    }
}

/// What a device allows. The graphics library does not hand on the driver's figures,
/// so these are what every driver of the device's family guarantees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest range of a buffer that one shader binding may use, in bytes.
    pub binding_bytes: u64,
    /// The largest single buffer, in bytes.
    pub buffer_bytes: u64,
    /// How many workgroups one axis of a dispatch may have.
    pub groups_per_axis: u32,
    /// How many invocations a workgroup may have.
    pub workgroup_invocations: u32,
    /// How much workgroup memory a shader may use, in bytes.
    pub workgroup_bytes: u32,
    /// How many storage buffers a shader may bind.
    pub storage_buffers: u32,
    /// To what multiple a binding's offset must be aligned, in bytes.
    pub offset_alignment: u64,
}

impl Limits {
    /// The limits of an adapter of this kind.
    pub fn of(adapter: &Adapter) -> Self {
        const MEBIBYTE: u64 = 1 << 20;
        let (binding_bytes, buffer_bytes) = match adapter.kind {
            AdapterKind::Software => (128 * MEBIBYTE, 2048 * MEBIBYTE),
            AdapterKind::Integrated => (1024 * MEBIBYTE, 2048 * MEBIBYTE),
            AdapterKind::Discrete => (4096 * MEBIBYTE - 256, 4096 * MEBIBYTE - 256),
        };
        Self {
            binding_bytes,
            buffer_bytes,
            groups_per_axis: 65_535,
            workgroup_invocations: 256,
            workgroup_bytes: 16 << 10,
            storage_buffers: 24,
            offset_alignment: 256,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(name: &str, software: bool) -> Adapter {
        Adapter::from_information(
            0,
            &blade::DeviceInformation {
                is_software_emulated: software,
                device_name: name.to_owned(),
                ..Default::default()
            },
        )
    }

    #[test]
    fn prefers_discrete_then_integrated_then_software() {
        let software = adapter("llvmpipe (LLVM 15.0.6, 256 bits)", true);
        let integrated = adapter("Intel(R) UHD Graphics 770", false);
        let discrete = adapter("NVIDIA GeForce RTX 4070", false);
        let all = [software.clone(), integrated.clone(), discrete];
        assert_eq!(choose(&all).unwrap().name, "NVIDIA GeForce RTX 4070");
        assert_eq!(choose(&all[..2]).unwrap().name, integrated.name);
        assert_eq!(choose(&all[..1]).unwrap().name, software.name);
    }

    #[test]
    fn says_why_nothing_can_be_used() {
        let mut old = adapter("Old Card", false);
        old.rejected = Some("Vulkan 1.0".to_owned());
        assert!(
            choose(&[old])
                .unwrap_err()
                .to_string()
                .contains("Old Card: Vulkan 1.0")
        );
        assert!(
            choose(&[])
                .unwrap_err()
                .to_string()
                .contains("reports no device")
        );
    }
}
