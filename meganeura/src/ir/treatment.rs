use super::Init;

/// What a model says about a layer's parameters that the layer itself does not know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Treatment {
    /// They are kept, but not trained.
    pub frozen: bool,
    /// How weights (parameters of at least two axes) start, instead of the layer's own way.
    pub init: Option<Init>,
    /// What the layer computes may be computed again in the backward pass rather than kept.
    pub recomputed: bool,
    /// The path of the layer whose parameters of the same names are used instead of own ones.
    pub tied: Option<String>,
}

/// The treatments that hold where a graph is being built.
#[derive(Clone, Default)]
pub(super) struct Current {
    frozen: bool,
    init: Option<Init>,
    /// The path of the layer that is computed again as a whole.
    pub(super) recomputed: Option<String>,
    /// Paths of layers and the paths whose parameters they share.
    ties: Vec<(String, String)>,
    /// The path around the layer being built.
    outside: String,
    /// The path around the innermost repetition, and the number of the element being built.
    repetition: Option<(String, usize)>,
}

impl Current {
    /// What holds inside the layer at `path`, which is treated so.
    pub(super) fn inside(&self, path: &str, treatment: &Treatment) -> Current {
        let mut inside = self.clone();
        inside.frozen |= treatment.frozen;
        if treatment.recomputed {
            inside.recomputed = Some(path.to_owned());
        }
        inside.init = treatment.init.or(inside.init);
        if let Some(other) = &treatment.tied {
            inside.ties.push((path.to_owned(), other.clone()));
        }
        inside
    }

    /// What holds inside the element at `path`: elements are computed again one by one.
    pub(super) fn element(&self, index: usize, path: &str) -> Current {
        let mut inside = self.clone();
        inside.repetition = Some((self.outside.clone(), index));
        inside.recomputed = self.recomputed.as_ref().map(|_| path.to_owned());
        inside
    }

    /// Goes into a layer; gives what to leave it with.
    pub(super) fn enter(&mut self, outside: String) -> String {
        std::mem::replace(&mut self.outside, outside)
    }

    pub(super) fn leave(&mut self, outside: String) {
        self.outside = outside;
    }

    pub(super) fn repetition(&self) -> Option<(&str, usize)> {
        let (prefix, index) = self.repetition.as_ref()?;
        Some((prefix, *index))
    }

    pub(super) fn frozen(&self) -> bool {
        self.frozen
    }

    pub(super) fn init(&self, rank: usize, own: Init) -> Init {
        match self.init {
            Some(init) if rank > 1 => init,
            _ => own,
        }
    }

    /// The name whose variable is used instead of the one named `name`.
    pub(super) fn shared(&self, name: &str) -> Option<String> {
        self.ties.iter().rev().find_map(|(path, other)| {
            let rest = name.strip_prefix(path)?.strip_prefix('.')?;
            Some(match other.as_str() {
                "" => rest.to_owned(),
                other => format!("{other}.{rest}"),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Treatment;
    use crate::ir::{Graph, Init, VariableKind};

    #[test]
    fn parameters_are_treated_as_said() {
        let graph = Graph::new();
        let treatment = Treatment {
            frozen: true,
            init: Some(Init::Orthogonal),
            recomputed: true,
            ..Treatment::default()
        };
        graph.scoped("a", || {
            graph.treated(&treatment, || {
                graph.parameter("weight", [2, 2], Init::Zeros);
                graph.scoped("b", || graph.parameter("bias", [2], Init::Zeros));
            });
        });
        graph.parameter("c", [2, 2], Init::Zeros);
        let variables = graph.variables();
        let found = |index: usize| {
            let (variable, id) = &variables[index];
            let recomputed = graph.is_recomputed(graph.nodes()[id.index()].scope);
            (variable.kind, variable.init, recomputed)
        };
        assert_eq!(found(0), (VariableKind::Buffer, Init::Orthogonal, true));
        assert_eq!(found(1), (VariableKind::Buffer, Init::Zeros, true));
        assert_eq!(found(2), (VariableKind::Parameter, Init::Zeros, false));
    }

    #[test]
    fn tied_layers_share_what_the_other_has() {
        let graph = Graph::new();
        let treatment = Treatment {
            tied: Some("embed".to_owned()),
            ..Treatment::default()
        };
        let table = graph.scoped("embed", || graph.parameter("weight", [5, 2], Init::Ones));
        graph.scoped("logits", || {
            graph.treated(&treatment, || {
                let weight = graph.parameter("weight", [5, 2], Init::Zeros);
                assert_eq!(weight.id(), table.id());
                graph.parameter("bias", [5], Init::Zeros);
                assert!(graph.parameter("weight", [2, 5], Init::Zeros).is_poisoned());
            });
        });
        let names: Vec<String> = graph.variables().into_iter().map(|(v, _)| v.name).collect();
        assert_eq!(names, ["embed.weight", "logits.bias"]);
        let error = graph.errors()[0].to_string();
        assert_eq!(
            error,
            "logits: shares `embed.weight` of [5, 2], but needs [2, 5]"
        );
    }
}
